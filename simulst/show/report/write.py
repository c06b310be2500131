"""Put a report into one file that needs nothing else: data, scripts and style."""

from __future__ import annotations

import html
import json
import string
from dataclasses import asdict
from pathlib import Path

from simulst.files.folder import write_atomically
from simulst.show.report.content import Report

HERE = Path(__file__).parent


def write_report(out: Path, report: Report) -> None:
    """Write the page. A file that is there is replaced. Raises SimulstError: it can't be written."""
    page = string.Template((HERE / "report.html").read_text(encoding="utf-8"))
    text = page.substitute(
        title=html.escape(report.title),
        data=embedded(asdict(report)),
        script=(HERE / "report.js").read_text(encoding="utf-8"),
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text)


def embedded(value: object) -> str:
    """JSON that may stand in a script element: no text in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
