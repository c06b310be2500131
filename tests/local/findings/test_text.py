"""The list of findings, and the command that prints it."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from pathlib import Path

from contents import contents
from fake_runs import references, write_run
from recipe_copy import call

from findings import Finding, Outcome
from findings.text import findings_page
from findings.verdict import Measured, as_result

X1 = Finding("X1", "3.4", "A is better than B.", "quality_at_lag", ("a_*",), ("b",), "more", 1.5, command="./run.sh")
FOUND = Measured(3.4567, 1.2, 5.678, (3.11, 3.84), 0.001, 1.0, (1953.2, 2072.4), None)

FINDINGS = """
paper: Mine
command: ./run.sh --recipe mini
findings:
  - {id: M1, section: 2, sentence: Good is better, kind: quality, a: [good], b: [bad], direction: more}
  - {id: M2, section: 2, sentence: Great is cheaper, kind: cost, a: [great], b: [bad], direction: less}
"""


def test_lines() -> None:
    outcomes = [
        Outcome(X1, "holds", a=("a_1", "a_2"), b=("b",), trainings=2, measured=FOUND, p=0.004),
        Outcome(X1, "runs missing", missing=("a_*",)),
        Outcome(X1, "not decided", "it rains", a=("a_1",), b=("b",), trainings=1, measured=FOUND),
        Outcome(X1, "not decided", a=("a_1",), b=("b",), trainings=1, measured=FOUND, p=0.2),
        Outcome(X1, "for other languages"),
    ]
    page = " ".join(findings_page([as_result("P", outcome) for outcome in outcomes]).split())
    assert page.startswith(
        "5 findings: holds 1, does not hold 0, inconclusive 1, can't be tested 1, runs missing 1, "
        "for other languages 1."
    )
    assert "p is corrected for 2 tests;" in page
    assert page.count("**X1 inconclusive**") == page.count("**X1 can't be tested**") == 1
    assert "* **X1 holds** (section 3.4). A is better than B: +3.5 BLEU [+1.2, +5.7] at LAAL 1953 to 2072 ms" in page
    assert "claimed more than +1.5, p = 0.004. `a_*` (2 runs) against `b`, in 2 trainings (+3.1 and +3.8)." in page
    assert "* **X1: runs missing**; `./run.sh`, with the options of the other runs, makes them: `a_*`." in page
    assert "`a_1` against `b`. The reason: it rains." in page and "* For other target languages: X1." in page


def test_a_difference_that_is_not_known() -> None:
    outcome = Outcome(
        X1, "not decided", "it rains", a=("a_1",), b=("b",), trainings=1, measured=replace(FOUND, low=nan)
    )
    one = as_result("P", outcome)
    assert one.low is None and one.difference == 3.4567
    assert "A is better than B. `a_1` against `b`. The reason: it rains." in " ".join(findings_page([one]).split())


def test_the_command(tmp_path: Path) -> None:
    declared = tmp_path / "mine.yaml"
    declared.write_text(FINDINGS)
    write_run(tmp_path / "runs/deep", "good", references(), 0.1)
    write_run(tmp_path / "runs/deep", "bad", references(), 0.6)
    options = ["findings", "--findings", declared, "--runs", tmp_path / "runs", "--samples", 1000]
    before = contents(tmp_path)
    printed = call(*options)
    assert "**M1 holds**" in printed and "**M2: runs missing**; `./run.sh --recipe mini`, with the" in printed
    assert call(*options) == printed
    assert contents(tmp_path) == before
