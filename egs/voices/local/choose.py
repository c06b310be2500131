"""Select the usable lines, and record why the others are dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from corpora.text import has_words
from lines import Line, bare
from name_code import UNKNOWN

SHORTEST = 0.3  # seconds


@dataclass(frozen=True)
class Dropped:
    """A line that is dropped. what: the language pair or the spoken language it is dropped from, or "" for all."""

    line: str
    what: str
    reason: str
    detail: str = ""


def usable_pairs(
    line: Line, unlike: Collection[str], pairs: Iterable[tuple[str, str]]
) -> tuple[list[tuple[str, str]], list[Dropped]]:
    """The language pairs for which a line is usable, and the reasons why it is dropped from others.

    unlike: spoken languages in which something else than the text is heard.
    pairs: source and target language.
    """
    broken = sorted(language for language, text in line.texts.items() if UNKNOWN in text)
    if broken:
        return [], [Dropped(line.name, "", "broken text", " ".join(broken))]
    if not any(map(has_words, line.texts.values())):
        return [], [Dropped(line.name, "", "no text")]
    dropped, usable, spoken = [], [], {}
    for language in line.speech:
        spoken[language] = _speech_fault(line, language, unlike)
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


def _speech_fault(line: Line, language: str, unlike: Collection[str]) -> Dropped | None:
    text = line.texts.get(language, "")
    if not has_words(text):
        return Dropped(line.name, language, "no text")
    if line.seconds(language) < SHORTEST:
        return Dropped(line.name, language, "short", f"{line.seconds(language):.2f} s")
    if language in unlike:
        return Dropped(line.name, language, "unlike", text)
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
