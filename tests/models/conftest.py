"""Tiny Whispers."""

from pathlib import Path

import pytest
import tiny_whisper
from tiny_whisper import load

from simulst.models.whisper.model import Whisper
from simulst.search import loops as search_loops


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that ends its sentences."""
    return tiny_whisper.write(tmp_path_factory.mktemp("tiny") / "ends", eos=6)


@pytest.fixture(scope="session")
def whisper(folder: Path) -> Whisper:
    return load(folder)


@pytest.fixture(scope="session")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Whisper:
    """A model that never ends its sentences."""
    return load(tiny_whisper.write(tmp_path_factory.mktemp("tiny") / "endless", eos=-100))


@pytest.fixture(scope="session")
def stamping(tmp_path_factory: pytest.TempPathFactory) -> Whisper:
    """A model that also writes timestamps and languages, most of the time."""
    return load(tiny_whisper.write(tmp_path_factory.mktemp("tiny") / "stamping", eos=3, times=0))


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random models repeat themselves. Where libraries are compared, that is no reason to search again."""
    monkeypatch.setattr(search_loops, "loops", lambda tokens, text, given: False)
