"""A small copy of the repository with one recipe."""

from pathlib import Path

import pytest
import recipe_copy
import tracked


@pytest.fixture(scope="session")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages and results as git has them."""
    folder = tmp_path_factory.mktemp("committed")
    tracked.copy(folder, "results", "docs", "egs", "conf")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of simulst, with scored runs in egs/mine/exp/runs."""
    return recipe_copy.make(tmp_path)
