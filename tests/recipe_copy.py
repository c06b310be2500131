"""A small copy of the repository with one recipe."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from fake_runs import references, write_run

from results import main
from simulst.runs import score_run

FINDINGS = """
paper: Mine
findings:
  - {id: M1, section: 2, sentence: Good is better, kind: quality, a: [good], b: [bad], direction: more}
"""
README = "# mine\n\n<!-- results -->\nold\n<!-- end results -->\n\nThe end.\n"


def make(tmp_path: Path) -> Path:
    """The folder of simulst, with scored runs in egs/mine/exp/runs."""
    for folder in ("egs/mine", "docs", "conf/findings", "results/mine"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "egs/mine/README.md").write_text(README)
    (tmp_path / "docs/papers.md").write_text("# Papers\n\n<!-- results -->\n<!-- end results -->\n")
    (tmp_path / "conf/findings/mine.yaml").write_text(FINDINGS)
    for name, wrong in (("good", 0.1), ("bad", 0.6)):
        score_run(write_run(tmp_path / "egs/mine/exp/runs", name, references(), wrong), "de", bootstrap=0)
    return tmp_path


def call(*arguments: object) -> str:
    """What `local/results.py` prints."""
    done = CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def publish(root: Path, *options: object, section: str = "en-de-tst") -> str:
    """What a recipe's last stage calls."""
    exp = root / "egs/mine/exp"
    named = ("--recipe", "mine", "--section", section, "--title", "mine, en-de", "--command", "./run.sh --recipe mine")
    findings = ("--findings", root / "conf/findings/mine.yaml")
    return call("write", exp / "runs", *named, *findings, "--out", exp, "--publish", root, *options)


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
