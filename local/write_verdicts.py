#!/usr/bin/env python
"""Write all verdicts on the papers' findings that the recipes have published into one page."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import run_command
from simulst.errors import SimulstError
from simulst.findings import load_findings
from simulst.findings.overview import overview, read_verdicts
from simulst.report.table import write_results


@click.command(help=__doc__)
@click.option(
    "--root", type=click.Path(path_type=Path, exists=True), default=Path(), help="Folder of simulst [the current one]."
)
def main(root: Path) -> None:
    """Replace a section of docs/papers.md. A copy of the recipes without this page has no such table."""
    page = root / "docs" / "papers.md"
    if not page.is_file():
        click.echo(f"{page}: no such page, so the verdicts are not collected.", err=True)
        return
    files = sorted((root / "conf" / "findings").glob("*.yaml"))
    if not files:
        raise SimulstError(f"{root / 'conf' / 'findings'}: no files of findings; give the folder of simulst as --root.")
    verdicts = read_verdicts(sorted((root / "egs").glob("*/*.md")))
    write_results(
        page, "verdicts", overview(load_findings(files), verdicts, page.parent), "python local/write_verdicts.py"
    )


if __name__ == "__main__":
    run_command(main)
