"""The table of all published verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from findings import Finding, Outcome
from findings.verdict import as_result
from published.overview import Column, overview
from published.section import Decided, Verdict
from simulst.errors import SimulstError

VERDICTS: tuple[Verdict, ...] = ("holds", "does not hold", "not decided", "runs missing", "for other languages")
FINDINGS = [
    Finding(f"X{n}", "2", f"Sentence {n}", "quality", ("a",), ("b",), "more", command="./run.sh") for n in range(5)
]
LEGEND = {"yes", "no", "?", "–", "…", "empty"}


def verdicts(given: tuple[Verdict, ...], first: int = 0) -> list[Decided]:
    return [as_result("P", Outcome(finding, one)) for finding, one in zip(FINDINGS[first:], given, strict=False)]


def test_overview() -> None:
    """Sections of one corpus share a column, with the link of the first one that has verdicts on the paper.

    A verdict on a finding that has other words by now awaits new runs.
    """
    [first, *rest] = verdicts(VERDICTS)
    published = [
        Column("mini en-de", "mini.md#a", verdicts(VERDICTS[:2])),
        Column("mini en-de", "mini.md#b", verdicts(VERDICTS[2:], first=2)),
        Column("mini talk", "mini.md#c", verdicts(VERDICTS[1:2])),
        Column("other", "other.md#a", [replace(first, sentence="Another sentence"), *rest]),
        Column("nothing", "other.md#b", verdicts(VERDICTS[3:])),
        Column("odd", "odd.md#a", [replace(one, reason="it rains") for one in verdicts(VERDICTS[2:3], first=2)]),
    ]
    table = overview({"P": FINDINGS, "Q": []}, published)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    heads = ["[mini en-de](mini.md#a)", "[mini talk](mini.md#c)", "[other](other.md#a)", "[odd](odd.md#a)"]
    assert rows[0] == ["Finding", *heads]
    assert rows[2:7] == [
        ["X0: Sentence 0", "yes", "no", "…", ""],
        ["X1: Sentence 1", "no", "", "no", ""],
        ["X2: Sentence 2", "?", "", "?", "–"],
        ["X3: Sentence 3", "", "", "", ""],
        ["X4: Sentence 4", "", "", "", ""],
    ]
    legend = table.partition("\n")[0]
    assert {part.partition(":")[0].strip() for part in legend.split(";")} == LEGEND


def test_notes_stand_below_the_table() -> None:
    """A note of several findings stands there once."""
    noted = [replace(finding, note="the same." if n != 1 else "") for n, finding in enumerate(FINDINGS[:3])]
    page = overview({"P": noted, "Q": FINDINGS[3:]}, [])
    assert page.count("the same.") == 1 and "* X0, X2: the same." in page.partition("**Q**")[0]


def test_two_verdicts_in_one_column() -> None:
    twice = [Column("mini en-de", f"mini.md#{part}", verdicts(VERDICTS[:1])) for part in "ab"]
    with pytest.raises(SimulstError, match=r"mini\.md#b: a second verdict on X0 for mini en-de; name another 'column'"):
        overview({"P": FINDINGS}, twice)
