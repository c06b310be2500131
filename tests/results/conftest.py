"""Makes tests/results/recipe_copy.py importable; a small copy of the repository with one recipe."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import recipe_copy


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of simulst, with scored runs in egs/mine/exp/runs."""
    return recipe_copy.make(tmp_path)
