"""Makes tests/serve/servers.py and tests/models/tiny_whisper.py importable; what sessions are told."""

import sys
from pathlib import Path

import pytest
from fake import FakeModel, noted

from simulst.background import Background

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "models")]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Background]:
    """What the fake model's sessions are told of their recordings, one after the other."""
    return noted(monkeypatch, FakeModel, "session", lambda model, opening: opening.background)
