"""Bilingual prefix alignment: which prefix of the speech already tells a prefix of its translation.

NAIST at IWSLT 2022, section 2.1, after Kano et al. 2022. The translations of many utterances are asked for together, so
that a model can batch them: `align` is about the order of the questions, `Translator` about answering them fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from simulst.models.batch_decoder import BatchDecoder
from simulst.models.espnet import ESPnet
from simulst.search import JointOptions, Tokens
from simulst.search.batch import batch_beam_search

FRAME = 160  # samples of a frame: 10 ms at 16 kHz

Question = tuple[int, int, Tokens]
"""Number of an utterance, frames of its prefix, and the tokens that its translation begins with."""
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
    translate: Translate, frames: Sequence[int], tau: int, text: Callable[[Tokens], str], open_end: bool = False
) -> list[Alignment]:
    """Extract the prefix pairs of utterances of `frames` frames each; those of at most `tau` frames have none.

    The prefixes of tau, 2 tau, ... frames are translated behind the last target prefix found. One that is a prefix of
    the whole translation in tokens and in words, and longer than the last, is a pair; then the whole is translated
    again behind it. (A token prefix may end within a word: "Haus" is no translation's prefix if that has "Haustür".)
    text: of tokens, with words apart.
    open_end: leave out punctuation behind the translation of a prefix. A model that was trained on whole sentences ends
        each of its translations with a full stop, which the whole then has only where it ends. (Not in the paper.)
    """
    count = len(frames)
    found: list[list[Pair]] = [[] for _ in frames]
    forced: list[Tokens] = [()] * count
    whole = translate([(row, frames[row], ()) for row in range(count)])
    for end in range(tau, max(frames, default=0), tau):
        rows = [row for row in range(count) if end < frames[row]]
        told = translate([(row, end, forced[row]) for row in rows])
        again = []
        for row, tokens in zip(rows, told, strict=True):
            tokens = _without_stop(tokens, text) if open_end else tokens
            if len(tokens) > len(forced[row]) and _is_prefix(tokens, whole[row], text, open_end):
                found[row].append(Pair(end, tokens))
                forced[row] = tokens
                again.append(row)
        updated = translate([(row, frames[row], forced[row]) for row in again])
        for row, tokens in zip(again, updated, strict=True):
            whole[row] = tokens
    return [Alignment(*each) for each in zip(frames, whole, found, strict=True)]


def _is_prefix(tokens: Tokens, whole: Tokens, text: Callable[[Tokens], str], open_end: bool) -> bool:
    if whole[: len(tokens)] != tokens:
        return False
    words = text(tokens).split()
    if not words:  # a lone space, say: nothing to train on
        return False
    others = text(whole).split()[: len(words)]
    if open_end and others:  # the last word's punctuation may be a token of its own
        others[-1] = others[-1][: _length(others[-1])]
    return others == words


def _without_stop(tokens: Tokens, text: Callable[[Tokens], str]) -> Tokens:
    while tokens and not _length(text(tokens[-1:])):
        tokens = tokens[:-1]
    return tokens


def _length(word: str) -> int:
    """Of a text without the punctuation behind it."""
    return max((place for place, character in enumerate(word, start=1) if character.isalnum()), default=0)


class Translator:
    """Answers the questions of `align` for some utterances, many at a time.

    Encoders that work in blocks run once through an utterance, and at the end of each prefix on a copy of their state.
    Others encode prefixes of the same length, which need no padding, together. Beams of all utterances grow together.

    audio: (n,) float32 at 16 kHz each. options: of the search, by the decoder alone (ctc_weight 0).
    """

    def __init__(self, model: ESPnet, audio: Sequence[np.ndarray], tau: int, options: JointOptions) -> None:
        self._model, self._audio, self._tau, self._options = model, audio, tau, options
        self._decoder = BatchDecoder(model.decoder)
        self._encoded: dict[tuple[int, int], Tensor] = {}  # (utterance, frames of the prefix) → encoder frames
        self.frames = [one.size // FRAME for one in audio]

    def __call__(self, questions: Sequence[Question]) -> list[Tokens]:
        """Raises SimulstError: options that are not for this search, scores that are not numbers."""
        if not questions:
            return []
        self._encode([(row, end) for row, end, _ in questions])
        model = self._model
        language = model.language
        found = batch_beam_search(
            self._decoder,
            [self._encoded[row, end] for row, end, _ in questions],
            [language + forced for _, _, forced in questions],
            self._options,
            model.sos,
            model.eos,
        )
        return [tokens[len(language) :] for tokens in found]

    def _encode(self, wanted: Sequence[tuple[int, int]]) -> None:
        lacking = [key for key in wanted if key not in self._encoded]
        if self._model.blockwise:
            for row in {row for row, _ in lacking}:
                self._run_through(row)
            return
        ends = {end for _, end in lacking}
        for end in ends:
            rows = [row for row, other in lacking if other == end]
            # The whole of an utterance includes what is less than a frame.
            alone = [row for row in rows if end == self.frames[row]]
            for row in alone:
                self._encoded[row, end] = self._model.encode(self._audio[row])
            rest = [row for row in rows if end != self.frames[row]]
            if rest:
                encoded = self._model.encode_batch(np.stack([self._audio[row][: end * FRAME] for row in rest]))
                self._encoded.update({(row, end): one for row, one in zip(rest, encoded, strict=True)})
            for key in [key for key in self._encoded if key[1] < end and key[1] != self.frames[key[0]]]:
                del self._encoded[key]  # `align` never comes back to a shorter prefix

    def _run_through(self, row: int) -> None:
        session, audio = self._model.session(), self._audio[row]
        for end in range(self._tau, self.frames[row], self._tau):
            session.extend(audio[session.length : end * FRAME])
            self._encoded[row, end] = session.encoded_as_end()
        session.extend(audio[session.length :], final=True)
        self._encoded[row, self.frames[row]] = session.encoded()
