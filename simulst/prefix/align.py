"""Bilingual prefix alignment: which prefix of the speech already tells a prefix of its translation.

NAIST at IWSLT 2022, section 2.1, after Kano et al. 2022. The translations of many utterances are asked for together, so
that a model can batch them: `align` is about the order of the questions, `Translator` about answering them fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulst.errors import SimulstError
from simulst.models.espnet.batched_decoder import SharedSteps
from simulst.models.espnet.model import ESPnet
from simulst.prefix.encoding import encode_prefixes
from simulst.search import Hypothesis, JointOptions, Tokens
from simulst.search.beam import JointSearch, Running, joint_beam_search
from simulst.search.calls import Steps, run_together
from simulst.units import FRAME


class Question(NamedTuple):
    """How are the first `end` frames of utterance `row` translated, if the translation begins with `forced`?

    wanted: only a translation that can make a pair with this whole one is of use, any other answer is as good as none.
    """

    row: int
    end: int
    forced: Tokens = ()
    wanted: Tokens | None = None


Translate = Callable[[Sequence[Question]], list[Tokens]]


@dataclass(frozen=True)
class Pair:
    """The first `frames` frames (10 ms) of an utterance, and what they tell of its translation."""

    frames: int
    tokens: Tokens


@dataclass(frozen=True)
class Alignment:
    """An utterance of `frames` frames, its translation as a whole, and its prefix pairs, growing."""

    frames: int
    whole: Tokens
    pairs: list[Pair]


def align(
    translate: Translate,
    frames: Sequence[int],
    tau: int,
    text: Callable[[Tokens], str],
    open_end: bool = False,
    unit: str = "word",
) -> list[Alignment]:
    """Extract the prefix pairs of utterances of `frames` frames each; those of at most `tau` frames have none.

    The prefixes of tau, 2 tau, ... frames are translated after the last target prefix found. One that is a prefix of
    the whole translation in tokens and in units, and longer than the last, is a pair; then the whole is translated
    again after it. (A token prefix may end within a word: "Haus" is no translation's prefix if that has "Haustür".)
    text: of tokens, with words apart. unit: "word", or "char" for languages that are written without spaces.
    open_end: leave out punctuation after the translation of a prefix. A model that was trained on whole sentences ends
        each of its translations with a full stop, which the whole then has only where it ends. (Not in the paper.)
    """
    count = len(frames)
    found: list[list[Pair]] = [[] for _ in frames]
    forced: list[Tokens] = [()] * count
    whole = translate([Question(row, frames[row]) for row in range(count)])
    for end in range(tau, max(frames, default=0), tau):
        rows = [row for row in range(count) if end < frames[row]]
        told = translate([Question(row, end, forced[row], whole[row]) for row in rows])
        again = []
        for row, tokens in zip(rows, told, strict=True):
            tokens = _without_stop(tokens, text) if open_end else tokens
            longer = len(tokens) > len(forced[row]) and whole[row][: len(tokens)] == tokens
            if longer and _is_prefix(text(tokens), text(whole[row]), open_end, unit):
                found[row].append(Pair(end, tokens))
                forced[row] = tokens
                again.append(row)
        updated = translate([Question(row, frames[row], forced[row]) for row in again])
        for row, tokens in zip(again, updated, strict=True):
            whole[row] = tokens
    return [Alignment(*each) for each in zip(frames, whole, found, strict=True)]


def _is_prefix(told: str, whole: str, open_end: bool, unit: str) -> bool:
    """Whether a translation's text, which begins another one, ends where a word of that does."""
    if unit == "char":
        # A character of several tokens is U+FFFD before its last one.
        told, whole = "".join(told.split()), "".join(whole.split())
        return bool(told) and whole.startswith(told)
    words = told.split()
    if not words:  # a lone space, say: nothing to train on
        return False
    others = whole.split()[: len(words)]
    if open_end and others:  # the last word's punctuation may be a token of its own
        others[-1] = others[-1][: _length(others[-1])]
    return others == words


def _without_stop(tokens: Tokens, text: Callable[[Tokens], str]) -> Tokens:
    while tokens and not _length(text(tokens[-1:])):
        tokens = tokens[:-1]
    return tokens


def _length(word: str) -> int:
    """Of a text without the punctuation after it."""
    return max((place for place, character in enumerate(word, start=1) if character.isalnum()), default=0)


class Translator:
    """Answers the questions of `align` for some utterances, many at a time: the beams of all grow together.

    target: the language written. audio: (n,) float32 at 16 kHz each. options: of the search, by the decoder alone
    (ctc_weight 0). open_end: as for `align`.
    Raises SimulstError: options that are not for this search; a language that the model does not write.
    """

    def __init__(
        self,
        model: ESPnet,
        target: str,
        audio: Sequence[np.ndarray],
        tau: int,
        options: JointOptions,
        open_end: bool = False,
    ) -> None:
        if options.ctc_weight:
            raise SimulstError("search: prefixes are translated by the decoder alone; write 'ctc_weight: 0.0'.")
        self._model, self._options = model, options
        self._language = model.vocabulary.language_prefix(target)
        tokens = range(len(model.vocabulary)) if open_end else ()
        self._endings = frozenset(token for token in tokens if not _length(model.text((token,))))
        self.frames = [one.size // FRAME for one in audio]
        self._encoded = encode_prefixes(model, audio, tau)

    def __call__(self, questions: Sequence[Question]) -> list[Tokens]:
        """Raises SimulstError: scores that are not numbers."""
        decoder = SharedSteps(self._model.decoder)
        found = run_together([self._search(question, decoder) for question in questions], decoder.answer)
        return [beam[0].tokens[len(self._language) :] for beam in found]

    def _search(self, question: Question, decoder: SharedSteps) -> Steps[list[Hypothesis]]:
        vocabulary = self._model.vocabulary
        search = JointSearch(decoder, self._options, vocabulary.sos, vocabulary.eos)
        search.append(self._encoded[question.row, question.end])
        prefix = self._language + question.forced
        give_up = None
        if question.wanted is not None:
            give_up = Hopeless(self._language + question.wanted, len(prefix), self._endings, self._options)
        return joint_beam_search(search, prefix, results=1, give_up=give_up)


class Hopeless:
    """Whether a search can't find a prefix of the text that is wanted any more, whatever follows.

    wanted: the text; tokens of `endings` may follow a prefix of it. given: tokens that every hypothesis begins with.
    The answer is exact: what is found without asking would be of no use either.
    """

    def __init__(self, wanted: Tokens, given: int, endings: frozenset[int], options: JointOptions) -> None:
        self._wanted, self._given, self._endings = wanted, given, endings
        self._falls = options.length_bonus <= 0  # scores only fall as a text grows, unless length is rewarded

    def __call__(self, running: Running, ended: list[Hypothesis]) -> bool:
        best = max(ended, key=lambda h: h.score, default=None)
        if best is not None and self._is_useful(best.tokens):
            return False
        bound = best.score if best is not None and self._falls else -np.inf
        hypotheses = zip(running.tokens.tolist(), running.scores.tolist(), strict=True)
        return not any(score > bound and self._is_useful(tokens) for tokens, score in hypotheses)

    def _is_useful(self, tokens: Sequence[int]) -> bool:
        """Whether a hypothesis is a prefix of what is wanted, but for endings after it."""
        same = self._given
        if tuple(tokens[:same]) != self._wanted[:same]:
            return False
        while same < min(len(tokens), len(self._wanted)) and tokens[same] == self._wanted[same]:
            same += 1
        return all(token in self._endings for token in tokens[same:])
