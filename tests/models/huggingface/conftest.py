"""A tiny model of each kind, saved once and loaded from its folder."""

import pytest
import tiny_huggingface

from simulst.models.huggingface.architectures import Architecture
from simulst.models.huggingface.model import HuggingFace

folders, models, model = tiny_huggingface.fixtures(tiny_huggingface.KINDS, tiny_huggingface.write)


@pytest.fixture
def architecture(model: HuggingFace) -> Architecture:
    return model.architecture
