"""What a small copy of the repository with one recipe has, and the calls of `local/results.py` there."""

from __future__ import annotations

from pathlib import Path

from printed import printed

from results import main

FINDINGS = """
paper: Mine
findings:
  - {id: M1, section: 2, sentence: Good is better, kind: quality, a: [good], b: [bad], direction: more}
"""
README = "# mine\n\n<!-- results -->\nold\n<!-- end results -->\n\nThe end.\n"


def call(*arguments: object) -> str:
    """What `local/results.py` prints."""
    return printed(*arguments, command=main)


def publish(root: Path, *options: object, section: str = "en-de-tst") -> str:
    """What a recipe's last stage calls."""
    exp = root / "egs/mine/exp"
    named = ("--recipe", "mine", "--section", section, "--title", "mine, en-de", "--command", "./run.sh --recipe mine")
    findings = ("--findings", root / "conf/findings/mine.yaml")
    return call("write", exp / "runs", *named, *findings, "--out", exp, "--publish", root, *options)
