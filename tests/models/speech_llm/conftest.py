"""A tiny speech LLM of each kind, saved once and loaded from its folder."""

from pathlib import Path

import pytest
import tiny_speech_llm
from tiny_speech_llm import KINDS

from simulst.models import load_model
from simulst.models.huggingface.model import HuggingFace


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("tiny")
    return {kind: tiny_speech_llm.write(place / kind, kind) for kind in KINDS}


@pytest.fixture(scope="session")
def models(folders: dict[str, Path]) -> dict[str, HuggingFace]:
    return {kind: load_model(folder, threads=1) for kind, folder in folders.items()}  # type: ignore[misc]


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, models: dict[str, HuggingFace]) -> HuggingFace:
    return models[request.param]
