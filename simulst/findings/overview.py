"""All published verdicts. Each paper has a table; its rows are findings, and its columns are corpora."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulst.errors import SimulstError
from simulst.findings.declared import Finding
from simulst.report.table import markdown

SECTION = re.compile(r"<!-- results: (\S+)-findings -->(.*?)<!-- end results: \1-findings -->", re.DOTALL)
VERDICT = re.compile(
    r"^\* \*\*(\S+) (holds|does not hold|not decided)\*\* (.*?)(?=^\* |\n\n)", re.MULTILINE | re.DOTALL
)
SYSTEM = re.compile(r"(?<![^-])b-(?:pieces-)?(?=[a-z]{2}-)|(-a|-prefix|-full-context|-tst)+$")
"""What names a system, and not a corpus, in the name of a section."""
SHORT = {"holds": "yes", "does not hold": "no", "not decided": "?"}


@dataclass(frozen=True)
class Verdict:
    """A published verdict on a finding.

    verdict: a key of `SHORT`.
    text: what the page says of the finding, on one line.
    """

    verdict: str
    text: str

    def is_on(self, finding: Finding) -> bool:
        """Whether the finding is still worded as it was when it was tested."""
        return " ".join(finding.sentence.rstrip(".").split()) in self.text


def read_verdicts(pages: Sequence[Path]) -> dict[tuple[Path, str], dict[str, Verdict]]:
    """The verdicts that `findings_page` wrote into pages: by page and corpus, from the finding's id to the verdict.

    Raises SimulstError: a page that can't be read; two verdicts on a finding for the same corpus.
    """
    found: dict[tuple[Path, str], dict[str, Verdict]] = {}
    for page in pages:
        try:
            text = page.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SimulstError(f"{page}: cannot be read ({error}); name pages in Markdown.") from error
        for section in SECTION.finditer(text):
            of_corpus = found.setdefault((page, SYSTEM.sub("", section[1])), {})
            for name, verdict, said in VERDICT.findall(section[2]):
                if name in of_corpus:
                    raise SimulstError(f"{page}: two verdicts on {name} for {section[1]}; remove the older one.")
                of_corpus[name] = Verdict(verdict, " ".join(said.split()))
    return found


def overview(
    papers: Mapping[str, Sequence[Finding]], verdicts: Mapping[tuple[Path, str], Mapping[str, Verdict]], folder: Path
) -> str:
    """The tables, in Markdown. A verdict on a finding that is worded differently by now is left out.

    papers: the findings by the name of the paper.
    verdicts: as `read_verdicts` returns them.
    folder: of the page that shows the tables; it links to the pages with the verdicts.
    """
    parts = ["yes: it holds; no: it does not; ?: not decided; empty: not tested."]
    for paper, findings in papers.items():
        names = {finding.id for finding in findings}
        columns = {place: of_corpus for place, of_corpus in verdicts.items() if names & of_corpus.keys()}
        heads = [f"[{page.parent.name} {corpus}]({os.path.relpath(page, folder)})" for page, corpus in columns]
        rows = [
            [f"{finding.id}: {finding.sentence}", *(_cell(finding, of_corpus) for of_corpus in columns.values())]
            for finding in findings
        ]
        parts += [f"**{paper}**", markdown([["Finding", *heads], *rows])]
    return "\n\n".join(parts)


def _cell(finding: Finding, verdicts: Mapping[str, Verdict]) -> str:
    one = verdicts.get(finding.id)
    return SHORT[one.verdict] if one and one.is_on(finding) else ""
