"""Makes tests/serve/servers.py and tests/models/tiny_whisper.py importable; what sessions are told."""

import sys
from pathlib import Path

import pytest
from fake import FakeModel, FakeSession

from simulst.background import Background
from simulst.opening import Opening

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "models")]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Background]:
    """What the fake model's sessions are told of their recordings, one after the other."""
    found: list[Background] = []
    session = FakeModel.session

    def opened(self: FakeModel, opening: Opening) -> FakeSession:
        found.append(opening.background)
        return session(self, opening)

    monkeypatch.setattr(FakeModel, "session", opened)
    return found
