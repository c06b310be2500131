"""Derive the code of Beneath a Steel Sky's texts again, and compare it with the table that the recipe uses.

Run stage 1 of egs/voices first: it fetches the packages, and Whisper base recognises the speech. Takes about a minute.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

sys.path.append(str(Path(__file__).resolve().parents[3] / "local"))  # what recipes share

from name_code import TABLE, derive_table, format_table, heard_lines
from simulst.commands.common import run_command
from simulst.errors import SimulstError
from sky_archive import SkyArchive
from sky_text import LANGUAGES, sections
from sources import fetch_games, fetch_words


@click.command(help=__doc__)
@click.option("--downloads", required=True, type=click.Path(path_type=Path), help="Folder of the packages.")
@click.option("--heard", required=True, type=click.Path(path_type=Path), help="File sky-en.jsonl of stage 1.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the table here.")
@click.option(
    "--lines",
    default=1500,
    show_default=True,
    type=click.IntRange(1),
    help="Recognised lines to use, the shortest ones.",
)
def main(downloads: Path, heard: Path, out: Path | None, lines: int) -> None:
    """Print the differences, or that there are none."""
    archive = SkyArchive(fetch_games(downloads).sky)
    messages = {la: [bits for _, each in sections(archive, la) for bits in each] for la in LANGUAGES}
    if not heard.is_file():
        raise SimulstError(f"{heard}: no such file; ./run.sh --recipe voices --only data makes it.")
    rows = [json.loads(row) for row in heard.read_text(encoding="utf-8").splitlines()]
    words = fetch_words(downloads)
    words["us"] = words["en"]
    pairs = heard_lines(dict(sections(archive, "en")), {row["name"]: row["text"] for row in rows})
    table = format_table(derive_table(messages, pairs[:lines], words))
    if out:
        out.write_text(table, encoding="utf-8")
    kept = TABLE.read_text(encoding="utf-8")
    found, expected = ({tuple(row.split("\t")[:2]) for row in text.splitlines()} for text in (table, kept))
    if found == expected:
        print(f"the same {len(found) - 1} words as in {TABLE.name}")
    for sign, only in (("derived", found - expected), ("table", expected - found)):
        for code, character in sorted(only):
            print(f"only {sign}: {code} {character}")


if __name__ == "__main__":
    run_command(main)
