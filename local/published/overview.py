"""All published verdicts. Each paper has a table; its rows are findings, and its columns are corpora."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from findings.declared import Finding
from published.section import Decided
from simulst.errors import SimulstError
from simulst.show.table import markdown

SHORT = {"holds": "yes", "does not hold": "no", "inconclusive": "?", "can't be tested": "–"}
AWAITED = "…"
LEGEND = (
    "yes: it holds; no: it does not; ?: inconclusive, the test says neither; –: can't be tested with these runs, and "
    f"the page says why; {AWAITED}: its wording or its margin has changed since these runs, whose logs are not kept, "
    "so that it awaits new runs; empty: no runs of it, or the paper speaks of other languages."
)


@dataclass(frozen=True)
class Column:
    """Published verdicts. name: of the column, such as "mini en-de"; link: where they are shown."""

    name: str
    link: str
    verdicts: Sequence[Decided]


def overview(papers: Mapping[str, Sequence[Finding]], published: Sequence[Column]) -> str:
    """The tables, in Markdown. AWAITED stands for a verdict on a finding that is worded differently by now.

    papers: the findings by the name of the paper. Their notes stand below its table.
    published: those of the same name share a column, and the first one's link.

    Raises SimulstError: a column has two verdicts on a finding.
    """
    parts = [LEGEND]
    for paper, findings in papers.items():
        sentences = {finding.id: finding.sentence for finding in findings}
        links: dict[str, str] = {}
        cells: dict[tuple[str, str], str] = {}
        for column in published:
            for one in column.verdicts:
                if one.shown in SHORT and one.id in sentences:
                    links.setdefault(column.name, column.link)
                    if (one.id, column.name) in cells:
                        raise SimulstError(
                            f"{column.link}: a second verdict on {one.id} for {column.name}; name another 'column' in "
                            "page.yaml."
                        )
                    same = _words(one.sentence) == _words(sentences[one.id])
                    cells[one.id, column.name] = SHORT[one.shown] if same else AWAITED
        heads = [f"[{name}]({link})" for name, link in links.items()]
        rows = [
            [f"{finding.id}: {finding.sentence}", *(cells.get((finding.id, name), "") for name in links)]
            for finding in findings
        ]
        parts += [f"**{paper}**", markdown([["Finding", *heads], *rows])]
        notes: dict[str, list[str]] = {}
        for finding in findings:
            if finding.note:
                notes.setdefault(finding.note, []).append(finding.id)
        parts += ["\n".join(f"* {', '.join(ids)}: {note}" for note, ids in notes.items())] if notes else []
    return "\n\n".join(parts)


def _words(sentence: str) -> list[str]:
    return sentence.rstrip(".").split()
