"""Bilingual prefix alignment: find pairs of a speech prefix and the prefix of the translation that it determines.

NAIST at IWSLT 2022, section 2.1, after Kano et al. 2022. Many utterances are translated together, so that a model can
batch them. `align` decides which translations are needed, and in which order; `Translator` computes them fast.

Each prefix gets the same encoder frames as if it were encoded alone. A blockwise encoder runs through the utterances
once. At the end of each prefix, a copy of its state encodes the last frames of the prefix. With other encoders, the
prefixes of an utterance share the convolution. All prefixes of one length are encoded together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from simulst.audio.units import FRAME
from simulst.calls import Steps
from simulst.errors import SimulstError
from simulst.hypotheses import Hypothesis, Tokens
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.network.blockwise_encoder import EncoderState
from simulst.search import JointOptions
from simulst.search.beam import JointSearch, Running, joint_beam_search
from simulst.streams.driver import Driver
from simulst.words import is_letter


class Question(NamedTuple):
    """How are the first `end` frames of utterance `row` translated, if the translation begins with `forced`?

    row: index of the utterance.
    end: frames of 10 ms.
    forced: tokens that the translation begins with.
    wanted: translation of the whole utterance. Only a prefix of it can become a pair, so the search may stop early if
        it can find none, and return any tokens. None: always finish the search.
    """

    row: int
    end: int
    forced: Tokens = ()
    wanted: Tokens | None = None


Translate = Callable[[Sequence[Question]], list[Tokens]]


@dataclass(frozen=True)
class Pair:
    """The first `frames` frames (10 ms) of an utterance, and the prefix of its translation that they determine."""

    frames: int
    tokens: Tokens


@dataclass(frozen=True)
class Alignment:
    """The result for one utterance.

    frames: length of the utterance, in frames of 10 ms.
    whole: translation of the whole utterance.
    pairs: prefix pairs, from the shortest to the longest.
    """

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
    """Extract the prefix pairs of some utterances. An utterance of at most `tau` frames has none.

    The prefixes of tau, 2 tau, ... frames are translated, each with the last target prefix forced. The result is a pair
    if it is longer than the last target prefix, and a prefix of the whole translation both in tokens and in units. The
    whole utterance is then translated again, with the new target prefix forced. (A token prefix may end within a word:
    "Haus" is not a prefix of a translation that begins with "Haustür".)

    translate: answers questions, in order.
    frames: length of each utterance, in frames of 10 ms.
    tau: frames by which prefixes grow.
    text: converts tokens to text with spaces between words.
    open_end: remove punctuation at the end of a prefix's translation. A model that was trained on whole sentences ends
        every translation with a full stop, but the whole translation has it only at its end. (Not in the paper.)
    unit: "word", or "char" for languages that are written without spaces.

    Returns: an Alignment for each utterance.
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
    """Whether the text `told` is a prefix of the text `whole` in whole units."""
    if unit == "char":
        # A character of several tokens is decoded as U+FFFD until its last token.
        told, whole = "".join(told.split()), "".join(whole.split())
        return bool(told) and whole.startswith(told)
    words = told.split()
    if not words:  # for example a single space, which is no target to train on
        return False
    others = whole.split()[: len(words)]
    if open_end and others:  # the punctuation after the last word may be a separate token
        others[-1] = others[-1][: _length(others[-1])]
    return others == words


def _without_stop(tokens: Tokens, text: Callable[[Tokens], str]) -> Tokens:
    while tokens and not _length(text(tokens[-1:])):
        tokens = tokens[:-1]
    return tokens


def _length(word: str) -> int:
    """Characters of a text without the punctuation at its end."""
    return max((place for place, character in enumerate(word, start=1) if is_letter(character)), default=0)


class Translator:
    """Answers the questions of `align` for some utterances. A driver runs all searches of a call together.

    target: target language.
    audio: samples of each utterance, (n,) float32 at 16 kHz.
    tau: frames of 10 ms by which prefixes grow.
    options: of the search, which uses the decoder alone (ctc_weight 0).
    open_end: as for `align`.

    Raises SimulstError: ctc_weight is not 0; the model does not write the target language.
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
        if options.ctc_weight != 0:
            raise SimulstError("search: prefixes are translated by the decoder alone; write 'ctc_weight: 0.0'.")
        self._model, self._options = model, options
        self._language = model.vocabulary.language_prefix(target)
        tokens = range(len(model.vocabulary)) if open_end else ()
        self._endings = frozenset(token for token in tokens if not _length(model.text((token,))))
        self.frames = [one.size // FRAME for one in audio]
        # (row, end of a prefix or of the whole utterance) → encoder frames, (t, width). Those of the whole utterance
        # include the samples after its last whole frame.
        encode = _in_blocks if model.blockwise else _one_length_at_a_time
        self._encoded: dict[tuple[int, int], Tensor] = dict(encode(model, audio, tau))

    def __call__(self, questions: Sequence[Question]) -> list[Tokens]:
        """The best translation for each question. Raises SimulstError: the model's scores are NaN or infinite."""
        driver = Driver(longest_wait=math.inf, most_calls=len(self.frames))
        found = [driver.run(self._search(question)) for question in questions]
        driver.finish()
        return [beam.result()[0].tokens[len(self._language) :] for beam in found]

    def _search(self, question: Question) -> Steps[list[Hypothesis]]:
        vocabulary = self._model.vocabulary
        decoder: Any = self._model.decoder  # a CachedDecoder, see extract.py
        search = JointSearch(decoder, self._options, vocabulary.sos, vocabulary.eos)
        search.append(self._encoded[question.row, question.end])
        prefix = self._language + question.forced
        give_up = None
        if question.wanted is not None:
            give_up = Hopeless(self._language + question.wanted, len(prefix), self._endings, self._options)
        return joint_beam_search(search, prefix, results=1, give_up=give_up)


class Hopeless:
    """Whether a search can no longer find a prefix of the wanted translation.

    The answer is exact: a search that continued after a "yes" would not find such a prefix either.

    wanted: the translation. Tokens of `endings` may follow its prefix.
    given: number of tokens that every hypothesis begins with.
    endings: tokens that are punctuation only.
    """

    def __init__(self, wanted: Tokens, given: int, endings: frozenset[int], options: JointOptions) -> None:
        self._wanted, self._given, self._endings = wanted, given, endings
        self._falls = (options.length_bonus or 0) <= 0  # without a reward for length, scores fall as a hypothesis grows

    def __call__(self, running: Running, ended: list[Hypothesis]) -> bool:
        best = max(ended, key=lambda h: h.score, default=None)
        if best is not None and self._is_useful(best.tokens):
            return False
        bound = best.score if best is not None and self._falls else -np.inf
        hypotheses = zip(running.tokens.tolist(), running.scores.tolist(), strict=True)
        return not any(score > bound and self._is_useful(tokens) for tokens, score in hypotheses)

    def _is_useful(self, tokens: Sequence[int]) -> bool:
        """Whether a hypothesis is a prefix of the wanted translation, apart from endings after it."""
        same = self._given
        if tuple(tokens[:same]) != self._wanted[:same]:
            return False
        while same < min(len(tokens), len(self._wanted)) and tokens[same] == self._wanted[same]:
            same += 1
        return all(token in self._endings for token in tokens[same:])


def _one_length_at_a_time(
    model: ESPnet, audio: Sequence[np.ndarray], tau: int
) -> Iterator[tuple[tuple[int, int], Tensor]]:
    frames = [one.size // FRAME for one in audio]
    known = [model.reduction.lasting(one) if count > tau else None for one, count in zip(audio, frames, strict=True)]
    for end in range(tau, max(frames), tau):
        rows = [row for row, count in enumerate(frames) if end < count]
        reduced = [model.reduction.all(audio[row][: end * FRAME], known[row]) for row in rows]
        yield from zip([(row, end) for row in rows], model.full_context(torch.stack(reduced)), strict=True)
    for row, one in enumerate(audio):
        yield (row, frames[row]), model.full_context(model.reduction.all(one, known[row])[None])[0]


def _in_blocks(model: ESPnet, audio: Sequence[np.ndarray], tau: int) -> Iterator[tuple[tuple[int, int], Tensor]]:
    frames = [one.size // FRAME for one in audio]

    def encode(
        rows: list[int], samples: int, first: int, state: EncoderState | None, final: bool
    ) -> tuple[Tensor, Any, int]:
        """Encode from feature frame `first` on.

        Returns: the encoder frames (B, t, width), the state, and the next feature frame.
        """
        last = model.features.count(samples, final)
        features = torch.stack([model.features.frames(audio[row][:samples], 0, first, last) for row in rows])
        [(frames, state)] = model.encode_blocks([(features, state, final)])
        return frames, state, last

    rows, first = list(range(len(audio))), 0
    state: EncoderState | None = None
    heard = [model.no_frames for _ in audio]  # encoder frames that do not depend on where the prefix ends
    for end in range(tau, max(frames) + tau, tau):
        going = [row for row in rows if end < frames[row]]
        for place, row in enumerate(rows):
            if row not in going:
                last, *_ = encode([row], audio[row].size, first, state[[place]] if state else None, True)
                yield (row, frames[row]), torch.cat([heard[row], last[0]])
        if not going:
            return
        state = state[[rows.index(row) for row in going]] if state else None
        rows = going
        more, state, first = encode(rows, end * FRAME, first, state, False)
        last, *_ = encode(rows, end * FRAME, first, state, True)
        for row, new, rest in zip(rows, more, last, strict=True):
            heard[row] = torch.cat([heard[row], new])
            yield (row, end), torch.cat([heard[row], rest])
