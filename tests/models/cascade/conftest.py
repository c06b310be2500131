"""Tiny language models that chat."""

from pathlib import Path

import pytest
import tiny_huggingface
from speaker import CHATS


@pytest.fixture(scope="session")
def chats(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("llm")
    return {kind: tiny_huggingface.write_language_model(place / kind, kind) for kind in CHATS}
