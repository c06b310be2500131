"""SEGMENT: whether a stream is one utterance, is cut into utterances at its pauses, or loses its oldest audio."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from simulst.hypotheses import Tokens
from simulst.needs import Need
from simulst.options import Amount, Count, Positive
from simulst.policy.base import Options
from simulst.words import Words

LONGEST_SECONDS = 30.0  # the window of Whisper, and longer than most training sentences
STRONG = re.compile(r"[.!?:;…。！？：；।؟۔][\"'”’»」』)\]]*$")  # a text that ends in strong punctuation


@dataclass(frozen=True)
class History:
    """How much of the text before an utterance the model is shown, if it takes such text (Whisper does).

    words: the most words, counted from the last one; characters for zh, ja, ... 0: none.
    seconds: words that were written longer ago than this are not shown.
    """

    words: Amount = 0
    seconds: Positive = 30.0


class Segmentation(Options):
    """Where a stream is cut into utterances.

    restart: whether a text begins anew that has stayed the same for four seconds of speech. Models that were trained on
        sentences end their text after one, and may add nothing to it from then on. Then all of it is committed, past
        COMMIT, and its audio leaves. So this is for speech of several sentences: of a single one, it would commit what
        COMMIT holds back. It concerns models that encode all audio again at each step.
    seconds: so much without speech ends an utterance; 0: the stream is one utterance.
    longest: longer utterances, in seconds, end at the next chunk without speech, those of twice the length at once.
    history: how much of the text before an utterance the model is shown.
    """

    restart = False
    seconds = 0.0
    longest = math.inf
    history = History()

    def dropped(self, tokens: Tokens, words: Words) -> int:
        """How many of the committed tokens in the window leave it after a step, with their audio."""
        return 0


@dataclass(frozen=True)
class Whole(Segmentation):
    """The stream is one utterance, by default of one sentence.

    restart: see Segmentation.
    """

    restart: bool = False

    label = "{restart:restart}"


@dataclass(frozen=True)
class Pause(Segmentation):
    """An utterance ends after `seconds` seconds without speech (simulst/streams/pauses.py).

    longest: after so many seconds, an utterance ends at its next chunk (32 ms) without speech, and after twice as many
        in any case.
    history: see History.
    restart: see Segmentation.
    """

    seconds: Positive = field()  # it must be given, though `Segmentation` has a value
    longest: Annotated[float, Field(gt=0)] = LONGEST_SECONDS
    history: History = History()
    restart: bool = True

    label = "pause{seconds:g}{?longest:-longest}{shown:-history}{?restart:-norestart}"

    @property
    def shown(self) -> str:
        return f"{self.history.words}-{self.history.seconds:g}s" if self.history.words else ""


@dataclass(frozen=True)
class Attention(Segmentation):
    """The stream is one utterance that may be as long as you like (StreamAtt, Papi et al. 2024, section 3).

    After each step, the newest committed words stay in the model's window, as the forced beginning of the next search.
    The others leave it and are not shown to the model any more. All audio leaves before the first word that stays, by
    the decoder's attention. A window that is full nevertheless is cut as with `none`.

    words: so many words stay; characters for zh, ja, ...
    sentence: the words of the last sentence stay, if these are fewer: those after the last strong punctuation
        (. ! ? : ; ...) that has words after it.
    restart: see Segmentation.
    """

    words: Count = 20
    sentence: bool = False
    restart: bool = True

    label = "attention{words}{sentence:-sentence}{?restart:-norestart}"
    needs = frozenset({Need.LEAVING})

    def dropped(self, tokens: Tokens, words: Words) -> int:
        more = words.count_all(tokens) - self.words
        places = [words.first(tokens, more)] if more > 0 else []
        if self.sentence:
            places += [
                end
                for end in words.ends(tokens)
                if end < len(tokens) and STRONG.search(words.text(tokens[:end]).rstrip())
            ]
        return max(places, default=0)
