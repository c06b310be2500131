#!/usr/bin/env python
"""Write all verdicts on the papers' findings that the recipes have published into one page."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.findings import load_findings
from simulst.findings.overview import overview, read_verdicts
from simulst.report.table import write_results


@click.command(help=__doc__)
@click.option(
    "--root", type=click.Path(path_type=Path, exists=True), default=Path(), help="Folder of simulst [the current one]."
)
def main(root: Path) -> None:
    """Replace a section of docs/papers.md."""
    page = root / "docs" / "papers.md"
    papers = load_findings(sorted((root / "conf" / "findings").glob("*.yaml")))
    verdicts = read_verdicts(sorted((root / "egs").glob("*/*.md")))
    write_results(page, "verdicts", overview(papers, verdicts, page.parent), "python local/write_verdicts.py")


if __name__ == "__main__":
    run_command(main)
