"""Pictures in the pages of docs/, taken of real runs in Chromium (Debian's package).

python local/pictures.py --model egs/prompts/models/whisper-base --source-lang "it es auto" --target-lang en RECORDING
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

DOCS = Path(__file__).parents[1] / "docs"
CHROMIUM = "/usr/bin/chromium"
COLOURS = 128  # of a picture, which keeps it small
LONGEST = 120_000  # ms that a page may take
SIZES = {"desktop": (1180, 760, "light"), "phone": (390, 780, "dark")}  # of the page of simulst serve


@contextmanager
def page_at(address: str, width: int, height: int, colours: str = "light") -> Iterator[Any]:
    """An open page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        look: Any = {"viewport": {"width": width, "height": height}, "color_scheme": colours}
        page = browser.new_page(**look)
        page.set_default_timeout(LONGEST)
        page.goto(address)
        yield page
        browser.close()


def save(picture: bytes, name: str) -> None:
    """Write a PNG with few colours."""
    from PIL import Image

    out = DOCS / name
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS).save(out, optimize=True)
    click.echo(f"wrote {out} ({out.stat().st_size / 1000:.0f} kB)")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("recording", type=click.Path(path_type=Path, exists=True))
@click.option("--seconds", default=25.0, show_default=True, help="How long the recording plays.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def main(recording: Path, seconds: float, options: Sequence[str]) -> None:
    """Take docs/serve-*.png while a recording plays. OPTIONS are those of simulst serve."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / recording.name).symlink_to(recording.resolve())
        command = [sys.executable, "-m", "simulst", "serve", "--port", "0", "--recordings", folder, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().split()[0]
                for name, look in SIZES.items():
                    with page_at(address, *look) as page:
                        page.wait_for_selector("body[data-ready]")
                        page.select_option("#source", "0")
                        page.click("#start")
                        page.mouse.move(0, 0)
                        page.wait_for_timeout(1000 * seconds)
                        page.locator("#text .unstable:not(:empty)").wait_for()
                        if name == "desktop":
                            page.locator(".word").nth(-4).hover()
                        save(page.screenshot(), f"serve-{name}.png")
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
