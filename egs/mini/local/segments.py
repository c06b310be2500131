"""What a speaker of the mini corpus says, cut into segments.

In style "sentences" a segment is one sentence, said in one breath. In style "talk" it is one to three clauses, as in
talks that were cut for subtitles: some end within a sentence, which the next segment goes on with; there are pauses and
fillers in them. Texts have no fillers, as transcripts and translations of talks have none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from sentences import Sentence
from speech import PAUSE, Breath, Range

Style = Literal["sentences", "talk"]
STYLES: tuple[Style, ...] = get_args(Style)
SENTENCES_PER_TALK = {"sentences": (8, 16), "talk": (15, 35)}

# Seconds of silence before a breath, beside PAUSE, and how often each kind is drawn.
LONG_PAUSE: Range = (1.2, 3.0)
WITHIN: Range = (0.2, 1.0)  # between clauses of a sentence
LONG_WITHIN: Range = (1.0, 2.0)
AT_A_FILLER: Range = (0.1, 0.4)
LONG = 0.1  # of the pauses are long ones
BREATHS = 0.6  # of the clauses that follow another in their segment are said after a pause
FILLED = 0.15  # of the clauses have a filler, before them or within
FILLERS = ("um", "uh")

CLAUSES = {1: 1, 2: 2, 3: 2}  # clauses of a segment: weight
WHOLE = 3  # times as likely is an end that is the end of a sentence
MOST_WORDS = 36  # of a segment; about 15 seconds


@dataclass(frozen=True)
class Segment:
    """What is said in one segment, and its texts."""

    en: str
    de: str
    ja: str
    said: tuple[Breath, ...]


def cut(sentences: Sequence[Sentence], style: Style, rng: Random) -> list[Segment]:
    """The segments of one talk. Their texts, put together, are the talk's English and German sentences."""
    if style == "sentences":
        return [Segment(s.en, s.de, s.ja, (Breath(PAUSE, s.en),)) for s in sentences]
    clauses = [(k, i) for k, sentence in enumerate(sentences) for i in range(len(sentence.parts.en))]
    segments = []
    while clauses:
        n = _end(sentences, clauses, rng)
        segments.append(_segment(sentences, clauses[:n], rng))
        clauses = clauses[n:]
    return segments


def _end(sentences: Sequence[Sentence], clauses: Sequence[tuple[int, int]], rng: Random) -> int:
    """How many of the clauses, each (sentence, clause), make the next segment."""
    weights, words = {}, 0
    for n, weight in CLAUSES.items():
        if n > len(clauses):
            break
        k, i = clauses[n - 1]
        parts = sentences[k].parts.en
        words += len(parts[i].split())
        if n == 1 or words <= MOST_WORDS:
            weights[n] = weight * (WHOLE if i + 1 == len(parts) else 1)
    return rng.choices(list(weights), list(weights.values()))[0]


def _segment(sentences: Sequence[Sentence], clauses: Sequence[tuple[int, int]], rng: Random) -> Segment:
    runs: dict[int, list[int]] = {}  # sentence → its clauses in this segment
    for k, i in clauses:
        runs.setdefault(k, []).append(i)
    texts = [sentences[k].run(run[0], run[-1] + 1) for k, run in runs.items()]
    joined = " ".join(text.en for text in texts), " ".join(text.de for text in texts), "".join(t.ja for t in texts)
    said: list[Breath] = []
    for k, i in clauses:
        _say(sentences[k].run(i, i + 1).en, i == 0, i > runs[k][0], said, rng)
    # A comma keeps eSpeak from ending in the melody of a full stop.
    return Segment(*joined, tuple(Breath(b.pause, re.sub(r"(?<![.,])$", ",", b.text)) for b in said))


def _say(clause: str, begins: bool, follows: bool, said: list[Breath], rng: Random) -> None:
    """Add a clause to what is said in a segment.

    begins: it is the first of its sentence.
    follows: the clause before it in its sentence is in the segment, too.
    """
    filled = rng.random() < FILLED
    if follows and not filled and rng.random() >= BREATHS:
        said[-1] = Breath(said[-1].pause, f"{said[-1].text} {clause}")
        return
    usual, long = (PAUSE, LONG_PAUSE) if begins else (WITHIN, LONG_WITHIN)
    texts = [clause]
    if filled:
        words = clause.split()
        at = rng.choice((0, rng.randrange(len(words))))
        texts = [" ".join(words[:at]), rng.choice(FILLERS), " ".join(words[at:])]
    said += [
        Breath(AT_A_FILLER if n else long if rng.random() < LONG else usual, text)
        for n, text in enumerate(filter(None, texts))
    ]
