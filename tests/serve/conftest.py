"""What sessions are told."""

import pytest
from fake import FakeModel, noted

from simulst.background import Background


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Background]:
    """What the fake model's sessions are told of their recordings, one after the other."""
    return noted(monkeypatch, FakeModel, "session", lambda model, opening: opening.background)
