"""Pictures of the page of `simulst serve` for the docs, from a real run: docs/serve-*.png.

    python local/pictures.py --model egs/mini/exp/en-de/st --source-lang en --target-lang de RECORDING

It needs Chromium, and plays the recording twice, once for each size of window.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = {"desktop": ({"width": 1180, "height": 760}, "light"), "phone": ({"width": 390, "height": 780}, "dark")}


async def shoot(address: str, out: Path, seconds: float) -> None:
    """Play the first recording of a server's page until so many seconds of it are translated, and take pictures."""
    from playwright.async_api import async_playwright

    chromium = shutil.which("chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (size, colours) in SIZES.items():
            page = await browser.new_page(viewport=size, color_scheme=colours)  # type: ignore[arg-type]
            await page.goto(address)
            await page.wait_for_selector("body[data-ready]")
            await page.select_option("#source", "0")
            await page.click("#start")
            await page.mouse.move(0, 0)
            await page.wait_for_timeout(1000 * seconds)
            await page.locator("#text .unstable:not(:empty)").wait_for(timeout=120_000)
            if name == "desktop":
                await page.locator(".word").nth(-4).hover()
            await page.screenshot(path=out / f"serve-{name}.png")
            await page.close()
        await browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--source-lang", required=True)
    parser.add_argument("--target-lang", required=True)
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / given.recording.name).symlink_to(given.recording.resolve())
        command = [sys.executable, "-m", "simulst", "serve", "--model", given.model, "--port", "0"]
        command += ["--source-lang", given.source_lang, "--target-lang", given.target_lang, "--recordings", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().split()[0]
                asyncio.run(shoot(address, given.out, given.seconds))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
