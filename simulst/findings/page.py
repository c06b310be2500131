"""Findings with their verdicts, as a part of a page in Markdown."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from simulst.findings.compare import AT
from simulst.findings.declared import Finding
from simulst.findings.verdict import LEVEL, Measured, Outcome

WIDTH = 118
DIGITS = {"quality": 1, "lag": 0, "cost": 0, "length": 2}


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def findings_page(papers: Mapping[str, Sequence[Outcome]]) -> str:
    """A list of findings: verdict, difference with its 95 % interval, corrected p, and the runs.

    papers: outcomes by the name of the paper.
    """
    outcomes = [outcome for of_paper in papers.values() for outcome in of_paper]
    tests = sum(outcome.p is not None for outcome in outcomes)
    counts = Counter[str](outcome.verdict for outcome in outcomes)
    verdicts = ["holds", "does not hold", "not decided", "runs missing"]
    verdicts += ["for other languages"] * ("for other languages" in counts)
    told = ", ".join(f"{verdict} {counts[verdict]}" for verdict in verdicts)
    several = any(outcome.trainings > 1 for outcome in outcomes)
    lines = [
        f"{_counted(len(outcomes), 'finding')}: {told}. Brackets hold 95 % intervals"
        + (" of the mean over the trainings; p is that of the least sure training. " if several else ". ")
        + f"p is corrected for {_counted(tests, 'test')}; a verdict needs p below {LEVEL:g}."
    ]
    for paper, of_paper in papers.items():
        lines += ["", f"**{paper}**", ""]
        lines += [_line(one) for one in of_paper if one.verdict not in ("runs missing", "for other languages")]
        lines += _missing([one for one in of_paper if one.verdict == "runs missing"])
        if others := [one.finding.id for one in of_paper if one.verdict == "for other languages"]:
            lines.append(f"* For other target languages: {', '.join(others)}.")
    return "\n".join(_wrapped(line) for line in lines)


def _line(outcome: Outcome) -> str:
    finding = outcome.finding
    head = f"* **{finding.id} {outcome.verdict}** ({_place(finding.section)}). {finding.sentence.rstrip('.')}"
    figures = f": {_difference(finding, outcome.measured)}" if outcome.measured else ""
    if outcome.p is not None:
        figures += f", p = {outcome.p:.3f}" if outcome.p >= 0.001 else ", p < 0.001"
    runs = f"{_side(finding.a, outcome.a)} against {_side(finding.b, outcome.b)}"
    if outcome.trainings > 1:
        each = f" ({_each(finding, outcome.measured)})" if outcome.measured else ""
        runs += f", in {outcome.trainings} trainings{each}"
    reason = f" Not tested: {outcome.reason}." if outcome.reason else ""
    return f"{head}{figures}. {runs}.{reason}"


def _missing(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each command that makes the runs that are missing."""
    commands = dict.fromkeys(outcome.finding.command for outcome in outcomes)
    lines = []
    for command in commands:
        ones = [outcome for outcome in outcomes if outcome.finding.command == command]
        patterns = dict.fromkeys(pattern for outcome in ones for pattern in outcome.missing)
        made_by = f"; `{command}`, with the options of the other runs, makes them" if command else ""
        names = ", ".join(outcome.finding.id for outcome in ones)
        lines.append(f"* **{names}: runs missing**{made_by}: {', '.join(f'`{pattern}`' for pattern in patterns)}.")
    return lines


def _place(section: str) -> str:
    return f"section {section}" if section[0].isdigit() else section


def _each(finding: Finding, found: Measured) -> str:
    return " and ".join(_signed(value, DIGITS[_figure(finding)]) for value in found.each)


def _figure(finding: Finding) -> str:
    return finding.kind.split("_")[0]


def _difference(finding: Finding, found: Measured) -> str:
    what = _figure(finding)
    digits = DIGITS[what]
    unit = {"quality": " BLEU", "lag": f" ms {finding.lag}", "cost": " % RTF", "length": " in length ratio"}[what]
    if finding.kind.endswith("_range"):
        unit += " of range"
    low, high = (_signed(end, digits) for end in (found.low, found.high))
    text = f"{_signed(found.difference, digits)}{unit} [{low}, {high}]"
    if found.levels:
        by_lag = AT[finding.kind] == "lag"
        start, end = (f"{level:.{0 if by_lag else 1}f}" for level in found.levels)
        place = start if start == end else f"{start} to {end}"
        text += f" at {finding.lag} {place} ms" if by_lag else f" at {place} BLEU"
        if found.bound is not None:
            text += f" (no common {'lag: the faster runs are held back' if by_lag else 'BLEU: the worse runs count'})"
    if finding.direction == "same":
        text += f", claimed within ±{finding.margin:g}"
    elif finding.margin:
        text += f", claimed {finding.direction} than {finding.margin:+g}"
    return text


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def _side(patterns: Sequence[str], labels: Sequence[str]) -> str:
    if len(labels) == 1 and not any("/" in pattern for pattern in patterns):
        return f"`{labels[0]}`"
    return f"{_listed(patterns)} ({len(labels)} runs)" if len(labels) > 1 else _listed(patterns)


def _listed(patterns: Sequence[str]) -> str:
    return " or ".join(f"`{pattern}`" for pattern in patterns)


def _wrapped(line: str) -> str:
    indent = "  " if line.startswith("* ") else ""
    return textwrap.fill(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
