"""Subtitles of a recording: words with times become cues, written as SRT, WebVTT or JSON.

Cues are chosen for the whole recording at once (dynamic programming). As far as the limits of a cue allow, one ends
where a sentence ends or a speaker pauses, else after a comma, else between words. Words are never left out or changed.
"""

from __future__ import annotations

import html
import itertools
import json
import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import regex

from simulst.stream import Emission
from simulst.words import is_letter

LINES = 2  # of a cue, at most
PAUSE_MS = 300.0  # between two words; the pauses at which streams are cut are longer
LINGER_MS = 2000.0  # for which a word is taken to go on if nothing follows it; for words timed as they were written
# What a division of the text costs: each cue, and in addition
CUE, TOO_SHORT, ENDS_AT_COMMA, ENDS_BETWEEN_WORDS, INSIDE, UNFILLED = 1.0, 3.0, 0.5, 1.5, 2.0, 0.5
AFTER_COMMA = 0.5  # a line that ends so may be so much of a line longer or shorter than the other one

_CLOSERS = r"""["'”’»)\]」』）]*$"""
_SENTENCE = regex.compile(r"[.!?…。！？؟।]" + _CLOSERS)
_COMMA = regex.compile(r"[,;:–—，、；：،؛]" + _CLOSERS)
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]")
_NEVER_FIRST = frozenset("ーぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ々")  # of a line in Japanese
_TAG = regex.compile(r"<[^<>]*(?=>)")
_OVER = frozenset({"Mn", "Me"})
_OPENERS = frozenset({"Ps", "Pi"})


@dataclass(frozen=True)
class Layout:
    """What subtitles look like. Widths are in columns, of which a Chinese or Japanese character takes two.

    line_length: columns of a line; a longer word has a cue of its own.
    reading_speed: columns a second. A cue stays for so long, but not beyond the beginning of the next one.
    shortest, longest: seconds for which a cue is shown.
    """

    line_length: int = 42
    reading_speed: float = 17.0
    shortest: float = 1.0
    longest: float = 7.0


@dataclass(frozen=True)
class Word:
    """A word or character with the space before it, as in `Emission`, and when it was spoken or written, in ms."""

    text: str
    begin_ms: float
    end_ms: float


@dataclass(frozen=True)
class Cue:
    """What is shown at once: one or two lines, from the first to the second ms."""

    begin_ms: int
    end_ms: int
    lines: tuple[str, ...]


# ---- times of words ----


def spoken_words(emissions: Sequence[Emission], spoken: Sequence[tuple[float, float]]) -> list[Word]:
    """The words as they were spoken. spoken: first and last ms of each (see `OpenStream.spoken_ms`)."""
    return [Word(word.text, *times) for word, times in zip(emissions, spoken, strict=True)]


def written_words(emissions: Sequence[Emission], reading_speed: float) -> list[Word]:
    """The words as they were written. Those written at once are read one after the other, before the next are written.

    reading_speed: columns a second; faster if time is short.
    """
    if not emissions:
        return []
    groups = [(delay, list(words)) for delay, words in itertools.groupby(emissions, lambda word: word.delay_ms)]
    found = []
    for (delay, words), (following, _) in zip(groups, [*groups[1:], (math.inf, [])], strict=True):
        widths = [width(word.text) for word in words]
        per_ms = max(reading_speed / 1000, sum(widths) / (following - delay))
        times = [delay + columns / per_ms for columns in itertools.accumulate(widths, initial=0)]
        times = [min(time, following) for time in times]  # of rounding
        found += [Word(word.text, *span) for word, span in zip(words, itertools.pairwise(times), strict=True)]
        found[-1] = Word(words[-1].text, times[-2], min(following, times[-1] + LINGER_MS))
    return found


# ---- cues ----


def width(text: str) -> int:
    """Columns of a text: two for a wide character, none for a mark that is written over another character."""
    return sum(
        0 if unicodedata.category(c) in _OVER else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


@dataclass
class _Unit:
    """What no line divides: a word, or a character with the punctuation that belongs to it.

    spaced: whether a space stands before it.
    ends: 2 if a sentence ends with it or a pause follows, 1 after a comma, else 0.
    """

    text: str
    spaced: bool
    begin_ms: float
    end_ms: float
    ends: int = 0
    width: int = 0


def cues_of(words: Sequence[Word], layout: Layout | None = None) -> list[Cue]:
    """Divide words into cues. Their texts, joined, are the words, with one space for any white space.

    words: their times do not fall.
    Returns: cues that do not overlap. If words are too fast for `shortest`, the next cues come later.
    """
    layout = layout or Layout()
    units = _units(words)
    columns = list(itertools.accumulate((unit.width + unit.spaced for unit in units), initial=0))
    costs, firsts = [0.0, *(math.inf for _ in units)], [0] * (len(units) + 1)
    for first in range(len(units)):
        inside = 0  # sentences that end, and pauses, within the cue
        for end in _fitting_ends(units, first, layout):
            line_width = columns[end] - columns[first] - units[first].spaced
            cost = costs[first] + _cost(units, first, end, line_width, layout) + INSIDE * inside
            if cost < costs[end]:
                costs[end], firsts[end] = cost, first
            inside += units[end - 1].ends == 2
    cuts = [len(units)]
    while cuts[-1]:
        cuts.append(firsts[cuts[-1]])
    return _timed([units[first:end] for first, end in itertools.pairwise(reversed(cuts))], layout)


def _units(words: Sequence[Word]) -> list[_Unit]:
    units: list[_Unit] = []
    texts: list[list[str]] = []  # of the units, by characters
    for word in words:
        spaced = bool(units) and word.text[:1].isspace()
        for character in " ".join(word.text.split()):
            if units and not spaced and _belong_together(texts[-1][-1], character):
                texts[-1].append(character)
                units[-1].end_ms = max(units[-1].end_ms, word.end_ms)
            else:
                texts.append([character])
                units.append(_Unit("", spaced, word.begin_ms, max(word.begin_ms, word.end_ms)))
            spaced = False
    for unit, text in zip(units, texts, strict=True):
        unit.text = "".join(text)
    for unit, following in itertools.zip_longest(units, units[1:]):
        pauses = following is None or following.begin_ms - unit.end_ms >= PAUSE_MS
        unit.ends = 2 if pauses or _SENTENCE.search(unit.text) else 1 if _COMMA.search(unit.text) else 0
        unit.width = width(unit.text)
    return units


def _belong_together(last: str, first: str) -> bool:
    """Whether no line may end between two characters without a space between them.

    Scripts without spaces may be divided before each letter, but not before a mark or closing punctuation.
    """
    category = unicodedata.category(first)
    if category.startswith("M") or first in _NEVER_FIRST or unicodedata.category(last) in _OPENERS:
        return True
    if category in _OPENERS:
        return not _UNSPACED.match(last)
    return not is_letter(first) or not (_UNSPACED.match(first) or _UNSPACED.match(last))


def _fitting_ends(units: Sequence[_Unit], first: int, layout: Layout) -> Iterator[int]:
    """The ends of the cues that may begin there: by lines and duration."""
    line, lines = -1, 1  # -1: nothing stands in the line
    for end in range(first + 1, len(units) + 1):
        unit = units[end - 1]
        alone = end == first + 1
        if not alone and (unit.end_ms - units[first].begin_ms) / 1000 > layout.longest:
            return
        longer = unit.width if line < 0 else line + unit.spaced + unit.width
        if not alone and longer > layout.line_length:
            lines, longer = lines + 1, unit.width
            if lines > LINES or longer > layout.line_length:
                return
        line = longer
        yield end
        if line > layout.line_length:  # one word, longer than a line
            return


def _cost(units: Sequence[_Unit], first: int, end: int, line_width: int, layout: Layout) -> float:
    """line_width: columns of the units in one line."""
    filled = min(1.0, line_width / (LINES * layout.line_length))
    following = units[end].begin_ms if end < len(units) else math.inf
    short = following - units[first].begin_ms < layout.shortest * 1000
    ends = (ENDS_BETWEEN_WORDS, ENDS_AT_COMMA, 0.0)[units[end - 1].ends]
    return CUE + TOO_SHORT * short + ends + UNFILLED * (1 - filled) ** 2


def _timed(parts: Sequence[Sequence[_Unit]], layout: Layout) -> list[Cue]:
    shortest = max(1, round(layout.shortest * 1000))
    longest = max(shortest, round(layout.longest * 1000))
    cues: list[Cue] = []
    for part, following in itertools.zip_longest(parts, parts[1:]):
        begin = max(round(part[0].begin_ms), cues[-1].end_ms if cues else 0)
        read = begin + max(shortest, math.ceil(_line_width(part) / layout.reading_speed * 1000))
        end = min(max(round(part[-1].end_ms), read), begin + longest)
        if following is not None:
            end = min(end, max(round(following[0].begin_ms), begin + shortest))
        cues.append(Cue(begin, end, _lines(part, layout)))
    return cues


def _lines(part: Sequence[_Unit], layout: Layout) -> tuple[str, ...]:
    """One line, or two of about the same length, the first one ending after a comma where there is one near."""
    if _line_width(part) <= layout.line_length or len(part) == 1:
        return (_line(part),)

    def cost(cut: int) -> tuple[bool, float]:
        widths = _line_width(part[:cut]), _line_width(part[cut:])
        difference = abs(widths[0] - widths[1]) / layout.line_length
        return max(widths) > layout.line_length, difference - AFTER_COMMA * (part[cut - 1].ends > 0)

    cut = min(range(1, len(part)), key=cost)
    return _line(part[:cut]), _line(part[cut:])


def _line_width(part: Sequence[_Unit]) -> int:
    return sum(unit.width + unit.spaced for unit in part) - part[0].spaced


def _line(part: Sequence[_Unit]) -> str:
    return "".join(" " * unit.spaced + unit.text for unit in part).lstrip()


def with_source(cues: Sequence[Cue], source: Sequence[Emission], layout: Layout | None = None) -> list[Cue]:
    """The cues, each followed by the source text that was heard before the next one begins, in as many lines as needed.

    cues: of words as they were written, so that they follow what was heard. source: the words of the source text.
    """
    layout = layout or Layout()
    found, left = [], list(source)
    for cue, following in itertools.zip_longest(cues, cues[1:]):
        until = math.inf if following is None else following.begin_ms
        own = list(itertools.takewhile(lambda word, until=until: word.delay_ms < until, left))  # type: ignore[misc]
        left = left[len(own) :]
        lines: list[list[_Unit]] = []
        for unit in _units([Word(word.text, 0.0, 0.0) for word in own]):
            if not lines or _line_width([*lines[-1], unit]) > layout.line_length:
                lines.append([])
            lines[-1].append(unit)
        found.append(Cue(cue.begin_ms, cue.end_ms, (*cue.lines, *map(_line, lines))))
    return found


# ---- files ----


def as_srt(cues: Sequence[Cue]) -> str:
    """The text of an SRT file.

    SRT has no way to write < and >: players leave out what looks like a tag, such as <String>. With an empty tag
    inside, it does not look like one, and players show it as it is.
    """
    texts = (_TAG.sub(r"\g<0><b></b>", "\n".join(cue.lines)) for cue in cues)
    spans = (_span(cue, ",") for cue in cues)
    return "\n".join(f"{i}\n{span}\n{text}\n" for i, (span, text) in enumerate(zip(spans, texts, strict=True), start=1))


def as_vtt(cues: Sequence[Cue]) -> str:
    """The text of a WebVTT file."""
    blocks = (f"\n{_span(cue, '.')}\n" + html.escape("\n".join(cue.lines), quote=False) + "\n" for cue in cues)
    return "WEBVTT\n" + "".join(blocks)


def as_json(cues: Sequence[Cue], words: Sequence[Word], about: dict[str, Any]) -> str:
    """Cues, and the words with their times, as JSON. about: what else the file says, such as languages."""
    found = {**about, "cues": [asdict(cue) for cue in cues], "words": [asdict(word) for word in words]}
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def _span(cue: Cue, point: str) -> str:
    return " --> ".join(_time(ms, point) for ms in (cue.begin_ms, cue.end_ms))


def _time(ms: int, point: str) -> str:
    seconds, ms = divmod(ms, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{ms:03}"
