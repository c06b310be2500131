"""A small copy of the repository with one recipe, and its pages and results as git has them."""

from pathlib import Path

import pytest
import tracked
from fake_runs import references, write_run
from recipe_copy import FINDINGS, README

from simulst.runs.score import score_run


@pytest.fixture(scope="session")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages and results as git has them."""
    folder = tmp_path_factory.mktemp("committed")
    tracked.copy(folder, "results", "docs", "egs", "conf")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of simulst, with scored runs in egs/mine/exp/runs."""
    for folder in ("egs/mine", "docs", "conf/findings", "results/mine"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "egs/mine/README.md").write_text(README)
    (tmp_path / "docs/papers.md").write_text("# Papers\n\n<!-- results -->\n<!-- end results -->\n")
    (tmp_path / "conf/findings/mine.yaml").write_text(FINDINGS)
    for name, wrong in (("good", 0.1), ("bad", 0.6)):
        score_run(write_run(tmp_path / "egs/mine/exp/runs", name, references(), wrong), "de", bootstrap=0)
    return tmp_path
