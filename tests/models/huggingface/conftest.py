"""A tiny model of each kind, saved once and loaded from its folder."""

from pathlib import Path

import pytest
import tiny_huggingface
from tiny_huggingface import KINDS

from simulst.models import load_model
from simulst.models.huggingface.architectures import Architecture
from simulst.models.huggingface.model import HuggingFace


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("tiny")
    # The other one of seed 0 ends nearly all texts at once.
    return {kind: tiny_huggingface.write(place / kind, kind, 6 if kind == "canary" else 0) for kind in KINDS}


@pytest.fixture(scope="session")
def models(folders: dict[str, Path]) -> dict[str, HuggingFace]:
    return {kind: load_model(folder, threads=1) for kind, folder in folders.items()}  # type: ignore[misc]


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, models: dict[str, HuggingFace]) -> HuggingFace:
    return models[request.param]


@pytest.fixture
def architecture(model: HuggingFace) -> Architecture:
    return model.architecture
