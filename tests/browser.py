"""Pages in headless Chromium.

Playwright's loop runs in the thread of the test while a browser is open, so such tests call no `asyncio.run`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from waiting import HANGS

CHROMIUM = shutil.which("chromium") or ""


@contextmanager
def browser(*arguments: str) -> Iterator[Any]:
    """A browser (playwright's `Browser`); the test is skipped where there is none. arguments: more for Chromium."""
    api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("there is no Chromium; install Debian's package chromium")
    api.expect.set_options(timeout=1000 * HANGS)
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", *arguments], timeout=1000 * HANGS
        )
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def page_at(opened: Any, address: str, quiet: bool = True, **context: Any) -> Iterator[Any]:
    """A page (playwright's `Page`) in a window of its own. quiet: in the end there must be nothing in its console.

    context: options of playwright's `new_context`, such as viewport, color_scheme, permissions.
    """
    with opened.new_context(**context) as window:
        window.set_default_timeout(1000 * HANGS)
        page, said = window.new_page(), list[str]()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(address)
        yield page
        assert not (quiet and said), said


def stop_clock(page: Any) -> None:
    """Time stands still for the page from now on, until `page.clock.resume()`; `page.clock.run_for(ms)` moves it."""
    page.clock.install(time=0)
    page.clock.pause_at(3600)


def obstacles(page: Any) -> list[str]:
    """What axe finds that is serious or critical to somebody with a screen reader or without a mouse."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = [one for one in axe.Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {node['html']}" for one in found for node in one["nodes"]]
