"""Texts and translations with the words that are aligned: read from files, or aligned here."""

from __future__ import annotations

import glob
import itertools
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.files.text import read_json, read_text
from simulst.languages import unit_of

logger = logging.getLogger(__name__)

WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
CHARACTER = re.compile(r"[^\s]")
LEAST = 20  # pairs from which words can be aligned at all
ROUNDS = 5  # of expectation maximisation
Span = tuple[int, int]
Row = tuple[str, str, list[str], list[str], list[tuple[int, int]]]
"""Texts, words and links of a pair."""


class OtherWords(SimulstError):
    """Words of a pair are not in its text."""


@dataclass(frozen=True)
class Aligned:
    """A text and its translation, with the characters from and to which each word goes.

    links: for each pair of aligned words, the number of the source's and of the target's.
    """

    source: str
    target: str
    source_words: Sequence[Span]
    target_words: Sequence[Span]
    links: Sequence[tuple[int, int]]


def spoken_pairs(
    words: Mapping[str, Sequence[tuple[float, str]]], folder: Path, utterances: Collection[str] = ()
) -> list[Aligned]:
    """Recordings of a folder and what is said in them. Words have the second at which they end, and their spaces.

    utterances: names that stand for themselves, and for no file of the folder.

    A word begins where the one before it ends. Raises SimulstError: a recording is missing.
    """
    pairs = []
    for name, said in words.items():
        found = [name] if name in utterances else sorted(folder.glob(f"{glob.escape(name)}.*"))
        if not found:
            raise SimulstError(f"{folder}: has no recording '{name}'; give the folder of the recordings.")
        times = [0, *(round(end * 1000) for end, _ in said)]
        spans, text = list[Span](), ""
        for _, word in said:
            text = (text + word).lstrip()
            spans.append((len(text) - len(word.lstrip()), len(text)))
        links = [(number, number) for number in range(len(said))]
        pairs.append(Aligned(str(found[0]), text, list(itertools.pairwise(times)), spans, links))
    return pairs


def read_pairs(path: Path) -> list[Aligned]:
    """Of JSON: a list of mappings with `source_words`, `target_words` and `alignments`.

    An alignment is [source, target], or a mapping with `source_span` and `target_span`, each [first, last + 1]. With
    `source_text` and `target_text`, the words are found in these texts; without them, spaces stand between words.

    A pair whose words are not in its text is left out, and told.

    Raises SimulstError: another kind of file; a number beyond the words; no pair has words that are in its text.
    """
    try:
        rows = [_row(row) for row in read_json(path, "give pairs with word alignments")]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SimulstError(
            f"{path}: not a list of pairs with source_words, target_words and alignments ({type(error).__name__}: "
            f"{error}); see docs/huggingface.md."
        ) from error
    found, faults = list[Aligned](), list[OtherWords]()
    for number, row in enumerate(rows, start=1):
        try:
            found.append(_aligned(*row, f"{path}: pair {number}"))
        except OtherWords as error:
            faults.append(error)
    if faults and not found:
        raise faults[0]
    if faults:
        logger.warning("%d of %d pairs are left out, such as the first: %s", len(faults), len(rows), faults[0])
    return found


def _row(row: dict[str, Any]) -> Row:
    source, target = ([*map(str, row[f"{side}_words"])] for side in ("source", "target"))
    links = [link for each in row["alignments"] for link in _link(each)]
    text, translation = row.get("source_text"), row.get("target_text")
    return str(text or " ".join(source)), str(translation or " ".join(target)), source, target, links


def _link(row: Any) -> list[tuple[int, int]]:
    if isinstance(row, dict):
        source, target = (range(*map(int, row[name])) for name in ("source_span", "target_span"))
        return [(one, other) for one in source for other in target]
    one, other = row
    return [(int(one), int(other))]


def read_pharaoh(links: Path, source: Path, target: Path) -> list[Aligned]:
    """Of three text files with a line for each pair: "0-0 2-1", and the words of both sides between spaces.

    Raises SimulstError: a file is missing; other numbers of lines; no alignment; a number beyond the words.
    """
    found = []
    for number, (linked, one, other) in enumerate(zip(*_lines_of(links, source, target), strict=True), start=1):
        try:
            pairs = [(int(first), int(second)) for first, second in (link.split("-") for link in linked.split())]
        except ValueError:
            raise SimulstError(
                f"{links}: line {number} is not in Pharaoh's format, such as '0-0 2-1': {linked!r:.60}."
            ) from None
        found.append(_aligned(one, other, one.split(), other.split(), pairs, f"{links}: line {number}"))
    return found


def _lines_of(*paths: Path) -> list[list[str]]:
    lines = [read_text(path, "give another file").splitlines() for path in paths]
    if len({len(part) for part in lines}) > 1:
        counts = ", ".join(f"{path} has {len(part)}" for path, part in zip(paths, lines, strict=True))
        raise SimulstError(f"the files of pairs must have a line for each pair; {counts}.")
    return lines


def _aligned(
    source: str, target: str, source_words: list[str], target_words: list[str], links: list[tuple[int, int]], where: str
) -> Aligned:
    sides = (("source", source, source_words), ("target", target, target_words))
    for (side, _, words), numbers in zip(sides, zip(*links, strict=True) if links else ((), ()), strict=True):
        wrong = [number for number in numbers if not 0 <= number < len(words)]
        if wrong:
            raise SimulstError(
                f"{where}: the alignment names word {wrong[-1]} of the {side}, which has {len(words)}, counted "
                "from 0; give the alignments of these words."
            )
    spans = []
    for side, text, words in sides:
        end = 0
        spans.append(list[Span]())
        for word in words:
            begin = text.find(word, end)
            if begin < 0:
                raise OtherWords(
                    f"{where}: the word '{word}' is not in the {side} after those before it; give the text's own words."
                )
            end = begin + len(word)
            spans[-1].append((begin, end))
    return Aligned(source, target, spans[0], spans[1], links)


# ---- pairs that nobody has aligned ----


def align_pairs(source: Path, target: Path, languages: tuple[str, str]) -> list[Aligned]:
    """Of two text files with a line for each pair, by NLTK's IBM Model 1 in both directions: the links of both.

    Words are compared in lower case; of languages such as zh each character is one. Raises SimulstError: NLTK is not
    installed; a file is missing; other numbers of lines; too few pairs.
    """
    try:
        from nltk.translate import AlignedSent, IBMModel1
    except ImportError:
        raise SimulstError("pairs are aligned by NLTK; install it (pip install nltk), or give --alignments.") from None
    texts = list(zip(*_lines_of(source, target), strict=True))
    if len(texts) < LEAST:
        raise SimulstError(f"{source}: has {len(texts)} pairs; words are aligned from {LEAST} on, better of 1000.")
    forms = [CHARACTER if unit_of(language) == "char" else WORD for language in languages]
    words = [tuple(form.findall(text) for form, text in zip(forms, pair, strict=True)) for pair in texts]
    there, back = (
        [AlignedSent(*([word.lower() for word in side] for side in pair[::step])) for pair in words] for step in (1, -1)
    )
    for pairs in (there, back):
        IBMModel1(pairs, ROUNDS)  # it writes the links into the pairs
    found = []
    for (one, other), (left, right), forth, again in zip(texts, words, there, back, strict=True):
        links = {link for link in forth.alignment if None not in link} & {(s, t) for t, s in again.alignment}
        found.append(_aligned(one, other, left, right, sorted(links), str(source)))
    return found


def spread(pairs: Sequence[Aligned], most: int) -> list[Aligned]:
    """So many of them, from the first to the last at equal steps."""
    return [pairs[number * len(pairs) // most] for number in range(most)] if len(pairs) > most else list(pairs)
