"""Select the usable lines, and record why the others are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from lines import Line, bare
from name_code import UNKNOWN
from simulst.data.text import has_words

LIKENESS = 0.5
"""Minimum likeness of Whisper base's transcript and the line. It drops 1.2 % of Sky's lines and 4 % of Drascula's,
nearly all of less than 3 s. If lines are compared with texts of other lines, 2 % pass."""
SHORTEST = 0.3  # seconds


@dataclass(frozen=True)
class Dropped:
    """A line that is dropped. what: the language pair or the spoken language it is dropped from, or "" for all."""

    line: str
    what: str
    reason: str
    detail: str = ""


def likeness(heard: str, text: str) -> float:
    """Likeness of a transcript and a text, from 0 to 1, by their letters (Ratcliff and Obershelp 1988).

    Whisper repeats short lines many times. So each beginning of the transcript is compared, and the best one counts.

    heard: Whisper's transcript.
    """
    letters = bare(text).replace(" ", "")
    best = 0.0
    beginning = ""
    for word in bare(heard).split():
        beginning += word
        if len(beginning) > 2 * len(letters) + 5:
            break
        best = max(best, SequenceMatcher(None, beginning, letters, autojunk=False).ratio())
    return best


def usable_pairs(
    line: Line, heard: Mapping[str, str], pairs: Iterable[tuple[str, str]]
) -> tuple[list[tuple[str, str]], list[Dropped]]:
    """The language pairs for which a line is usable, and the reasons why it is dropped from others.

    heard: spoken language → Whisper's transcript.
    pairs: source and target language.
    """
    broken = sorted(language for language, text in line.texts.items() if UNKNOWN in text)
    if broken:
        return [], [Dropped(line.name, "", "broken text", " ".join(broken))]
    if not any(map(has_words, line.texts.values())):
        return [], [Dropped(line.name, "", "no text")]
    dropped, usable, spoken = [], [], {}
    for language in line.speech:
        spoken[language] = _speech_fault(line, language, heard.get(language, ""))
        if fault := spoken[language]:
            dropped.append(fault)
    for source, target in pairs:
        if source not in spoken or spoken[source]:
            continue
        if fault := _pair_fault(line, source, target):
            dropped.append(fault)
        else:
            usable.append((source, target))
    return usable, dropped


def _speech_fault(line: Line, language: str, heard: str) -> Dropped | None:
    text = line.texts.get(language, "")
    if not has_words(text):
        return Dropped(line.name, language, "no text")
    if line.seconds(language) < SHORTEST:
        return Dropped(line.name, language, "short", f"{line.seconds(language):.2f} s")
    if (like := likeness(heard, text)) < LIKENESS:
        return Dropped(line.name, language, "unlike", f"{like:.2f}: {text} | heard: {heard[: 2 * len(text) + 20]}")
    return None


def _pair_fault(line: Line, source: str, target: str) -> Dropped | None:
    pair = f"{source}-{target}"
    texts = line.texts.get(source, ""), line.texts.get(target, "")
    if not has_words(texts[1]):
        return Dropped(line.name, pair, "no text")
    if "*" in "".join(texts):
        return Dropped(line.name, pair, "note", texts[1])
    if bare(texts[0]) == bare(texts[1]):
        return Dropped(line.name, pair, "equal", texts[1])
    return None


def format_dropped(dropped: Sequence[Dropped]) -> str:
    """One line for each dropped line, with tabs between fields."""
    return "".join(f"{d.line}\t{d.what or 'all'}\t{d.reason}\t{d.detail}\n" for d in dropped)
