"""Findings with their verdicts, as a part of a page in Markdown."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from findings.compare import AT
from findings.verdict import LEVEL
from published.section import Decided

WIDTH = 118
DIGITS = {"quality": 1, "lag": 0, "cost": 0, "length": 2}


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def findings_page(findings: Sequence[Decided]) -> str:
    """A list of findings: verdict, difference with its 95 % interval, corrected p, and the runs."""
    tests = sum(one.p is not None for one in findings)
    counts = Counter[str](one.shown for one in findings)
    verdicts = ["holds", "does not hold", "inconclusive", "can't be tested", "runs missing"]
    verdicts += ["for other languages"] * ("for other languages" in counts)
    told = ", ".join(f"{verdict} {counts[verdict]}" for verdict in verdicts)
    several = any(one.trainings > 1 for one in findings)
    lines = [
        f"{_counted(len(findings), 'finding')}: {told}. Brackets hold 95 % intervals"
        + (" of the mean over the trainings; p is that of the least sure training. " if several else ". ")
        + f"p is corrected for {_counted(tests, 'test')}; a verdict needs p below {LEVEL:g}."
    ]
    for paper in dict.fromkeys(one.paper for one in findings):
        of_paper = [one for one in findings if one.paper == paper]
        lines += ["", f"**{paper}**", ""]
        lines += [_line(one) for one in of_paper if one.verdict not in ("runs missing", "for other languages")]
        lines += _missing([one for one in of_paper if one.verdict == "runs missing"])
        if others := [one.id for one in of_paper if one.verdict == "for other languages"]:
            lines.append(f"* For other target languages: {', '.join(others)}.")
    return "\n".join(_wrapped(line) for line in lines)


def figures_text(one: Decided) -> str:
    """The difference that was measured, with its interval and p; empty: none was."""
    figures = _difference(one)
    return figures + (f", {p_text(one.p)}" if one.p is not None else "")


def sides_text(one: Decided) -> str:
    """Which runs were compared with which, in Markdown."""
    runs = f"{_side(one.a, one.a_runs)} against {_side(one.b, one.b_runs)}"
    if one.trainings > 1:
        each = " and ".join(_signed(value, DIGITS[_figure(one)]) for value in one.each)
        runs += f", in {one.trainings} trainings" + (f" ({each})" if each else "")
    return runs


def _line(one: Decided) -> str:
    figures, runs = figures_text(one), sides_text(one)
    figures = f": {figures}" if figures else ""
    reason = f" The reason: {one.reason}." if one.reason else ""
    return f"* **{one.id} {one.shown}** ({_place(one.section)}). {one.sentence.rstrip('.')}{figures}. {runs}.{reason}"


def _missing(findings: Sequence[Decided]) -> list[str]:
    """A line for each command that makes the runs that are missing."""
    commands = dict.fromkeys(one.command for one in findings)
    lines = []
    for command in commands:
        ones = [one for one in findings if one.command == command]
        patterns = dict.fromkeys(pattern for one in ones for pattern in one.missing)
        made_by = f"; `{command}`, with the options of the other runs, makes them" if command else ""
        names = ", ".join(one.id for one in ones)
        lines.append(f"* **{names}: runs missing**{made_by}: {', '.join(f'`{pattern}`' for pattern in patterns)}.")
    return lines


def _place(section: str) -> str:
    return f"section {section}" if section[0].isdigit() else section


def _figure(one: Decided) -> str:
    return one.kind.split("_")[0]


def _difference(one: Decided) -> str:
    if one.difference is None or one.low is None or one.high is None:
        return ""
    what = _figure(one)
    digits = DIGITS[what]
    unit = {"quality": " BLEU", "lag": f" ms {one.lag}", "cost": " % RTF", "length": " in length ratio"}[what]
    if one.kind.endswith("_range"):
        unit += " of range"
    text = f"{_signed(one.difference, digits)}{unit} [{_signed(one.low, digits)}, {_signed(one.high, digits)}]"
    if one.levels:
        by_lag = AT[one.kind] == "lag"
        start, end = (f"{level:.{0 if by_lag else 1}f}" for level in one.levels)
        place = start if start == end else f"{start} to {end}"
        text += f" at {one.lag} {place} ms" if by_lag else f" at {place} BLEU"
        if one.apart:
            text += f" (no common {'lag: the faster runs are held back' if by_lag else 'BLEU: the worse runs count'})"
    if one.direction == "same":
        text += f", claimed within ±{one.margin:g}"
    elif one.margin:
        text += f", claimed {one.direction} than {one.margin:+g}"
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


def p_text(p: float) -> str:
    """A p-value in a sentence."""
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"
