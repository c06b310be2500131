"""The table of all published verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulst.errors import SimulstError
from simulst.findings import Finding, Outcome, findings_page
from simulst.findings.overview import overview, read_verdicts
from simulst.report.table import write_results

VERDICTS = ("holds", "does not hold", "not decided", "runs missing", "for other languages")
FINDINGS = [
    Finding(f"X{n}", "2", f"Sentence {n}", "quality", ("a",), ("b",), "more", command="./run.sh") for n in range(5)
]


def publish(page: Path, section: str, verdicts: tuple[str, ...], first: int = 0) -> None:
    outcomes = [Outcome(finding, verdict) for finding, verdict in zip(FINDINGS[first:], verdicts, strict=False)]  # type: ignore[arg-type]
    page.parent.mkdir(exist_ok=True)
    write_results(page, section, findings_page({"P": outcomes}), "./run.sh")


def test_overview(tmp_path: Path) -> None:
    """Sections of one corpus on one page share a column, whatever system they are of."""
    mini, other, docs = tmp_path / "mini" / "README.md", tmp_path / "other" / "README.md", tmp_path / "docs"
    publish(mini, "en-de-findings", VERDICTS[:2])
    publish(mini, "en-de-full-context-findings", VERDICTS[2:], first=2)
    publish(mini, "talk-en-de-findings", VERDICTS[1:2])
    publish(other, "es-en-tst-findings", VERDICTS)
    publish(other, "of-nothing-findings", VERDICTS[3:])
    publish(other, "talk-b-es-en-prefix-tst-findings", VERDICTS[:1])
    publish(other, "talk-b-pieces-es-en-findings", VERDICTS[:1], first=1)
    other.write_text(other.read_text().replace("Sentence 0", "Another\n  sentence", 1))  # X0 of es-en
    table = overview({"P": FINDINGS, "Q": []}, read_verdicts([mini, other]), docs)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    links = ["[mini en-de](../mini/README.md)", "[mini talk-en-de](../mini/README.md)"]
    assert rows[0] == ["Finding", *links, "[other es-en](../other/README.md)", "[other talk-es-en](../other/README.md)"]
    assert rows[2:7] == [
        ["X0: Sentence 0", "yes", "no", "", "yes"],
        ["X1: Sentence 1", "no", "", "no", "yes"],
        ["X2: Sentence 2", "?", "", "?", ""],
        ["X3: Sentence 3", "", "", "", ""],
        ["X4: Sentence 4", "", "", "", ""],
    ]


def test_what_can_not_be_read(tmp_path: Path) -> None:
    page = tmp_path / "mini" / "README.md"
    publish(page, "en-de-findings", VERDICTS)
    publish(page, "en-de-full-context-findings", VERDICTS[:1])
    with pytest.raises(SimulstError, match=r"README.md: two verdicts on X0 for en-de-full-context"):
        read_verdicts([page])
    with pytest.raises(SimulstError, match=r"none.md: cannot be read"):
        read_verdicts([tmp_path / "none.md"])
