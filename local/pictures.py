"""Pictures in the pages of docs/, taken of real runs in Chromium (Debian's package).

python local/pictures.py report RUNS...     docs/report.png: an utterance of a report of these runs, which may be
                                            followed by options of simulst report, such as --run and --utterance
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

DOCS = Path(__file__).parents[1] / "docs"
CHROMIUM = "/usr/bin/chromium"
COLOURS = 128  # of a picture, which keeps it small


def take(address: str, out: Path, selector: str, width: int = 1100) -> None:
    """Take a picture of an element of a page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page: Any = browser.new_page(viewport={"width": width, "height": 800}, color_scheme="light")
        page.goto(address, timeout=120_000)
        save(page.locator(selector).screenshot(timeout=120_000), out)
        browser.close()


def save(picture: bytes, out: Path) -> None:
    """Write a PNG with few colours."""
    from PIL import Image

    Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS).save(out, optimize=True)
    click.echo(f"wrote {out} ({out.stat().st_size / 1000:.0f} kB)")


def report(runs: Sequence[str]) -> None:
    """The utterances of a report."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        subprocess.run([sys.executable, "-m", "simulst", "report", *runs, "--out", str(page)], check=True)
        take(page.as_uri(), DOCS / "report.png", "#utterances")


@click.group()
def main() -> None:
    """Take pictures of pages."""


@main.command("report", context_settings={"ignore_unknown_options": True})
@click.argument("runs", nargs=-1, required=True, type=click.UNPROCESSED)
def report_command(runs: tuple[str, ...]) -> None:
    """Take docs/report.png. RUNS are as those of simulst report; call it from where the runs were decoded."""
    report(runs)


if __name__ == "__main__":
    main()
