"""STOP `ctc_guide`: a small model's CTC layer says where the search of a large one ends (CUNI-KIT 2023, section 3.5).

The two models may be of any families and have different vocabularies. So the guide is asked once a word is whole, in
the guide's own spelling. For each of the word's tokens it tells the odds that the speech ends before this token and
does not go on with it: those of the CTC policy, where the large model's word stands in for the decoder's favourite.

In languages without spaces a word is a character, and a token of the guide may be several. The last token of a spelling
may change with the next character, so the guide is asked about a token once another one follows it. The last of its
tokens that was spoken is given up, as by the CTC policy.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from simulst.calls import Steps
from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.needs import Need
from simulst.opening import Opening
from simulst.options import AnyNumber
from simulst.policy.commit import common_prefix
from simulst.policy.context import Context, View
from simulst.policy.stop import Stop, Stopping
from simulst.words import is_letter

logger = logging.getLogger(__name__)

_WARNED: set[str] = set()  # the guides of which a warning was given


class Guide(Protocol):
    """A CTC layer that listens to one utterance. A model that has one opens it: `guide(opening)`."""

    def hear(self, samples: np.ndarray) -> Steps[None]:
        """Take in audio, (n,) float32, in steps (simulst/calls.py)."""

    def spell(self, text: str) -> Tokens:
        """A text in the guide's tokens, without what it has no tokens for."""

    def odds_of_end(self, tokens: Tokens, given: int, exact: bool) -> list[float]:
        """For each token from number `given` on: log odds that the speech ends before it and does not go on with it.

        exact: nor with any other token.
        """


@dataclass(frozen=True)
class CTCGuide(Stop):
    """End at a word before which, or within which, log Odds_end > threshold by another model's CTC layer.

    As the CTC policy gives up the last token that was spoken, the last word that was spoken is given up: COMMIT has to
    commit whole words, and it takes no word after which nothing follows.

    model: the guide's folder or zip, from where simulst runs; a small blockwise model with ST-CTC in the paper.
    threshold, exact: as of STOP `ctc`. name: of the guide in tables and curves, where several are compared.
    checkpoint: the guide's file of weights in it; empty: as of any model.
    """

    model: str
    threshold: AnyNumber
    exact: bool = False
    name: str = ""
    checkpoint: str = ""

    label = "guide{name:-}{exact:-exact}{threshold:+g}"
    sweeps = "threshold"
    needs = frozenset({Need.AUDIO})
    whole_words = True
    ends_in_word = True

    @property
    def files(self) -> tuple[str, ...]:
        in_folder = self.checkpoint and not Path(self.model).is_file()  # else it is a zip, which holds the weights
        return (f"{self.model}/{self.checkpoint}" if in_folder else self.model,)

    def open(self, context: Context) -> Stopping:
        """Raises SimulstError: no such model, one without a CTC layer, of other languages or another sample rate."""
        if context.load_model is None:
            raise SimulstError("stop: ctc_guide loads another model; open the stream by simulst.streams.open_stream.")
        try:
            rate, open_guide = _load(context.load_model, self.model, self.checkpoint)
            guide = open_guide(Opening(*context.languages, context.meter.part(("guide", self.model, self.checkpoint))))
        except SimulstError as error:
            raise SimulstError(f"stop: the guide {error}") from error
        if rate != context.sample_rate:
            raise SimulstError(
                f"stop: the guide {self.model} hears {rate} Hz, and the model {context.sample_rate} Hz; give another."
            )
        return (Guided if context.words.unit == "word" else GuidedCharacters)(self, context, guide)


class Guided(Stopping):
    """`CTCGuide` for one stream of a language with spaces. What it says follows from the audio and the tokens alone."""

    options: CTCGuide

    def __init__(self, options: CTCGuide, context: Context, guide: Guide) -> None:
        super().__init__(options, context)
        self._guide = guide
        self._odds = math.nan  # the guide's last ones
        # The words at which the last search went on: all tokens, and where each new word ends (first: the committed).
        self._passed: Tokens = ()
        self._ends = [0]

    def hear(self, samples: np.ndarray, final: bool) -> Steps[None]:
        if not final:  # then nobody asks
            yield from self._guide.hear(samples)
            self._passed, self._ends = (), [0]

    def ends(self, view: View) -> bool:
        """Whether a word is whole by now that the guide has not heard to its end."""
        committed = self.context.committed()
        given, tokens = len(committed), committed + view.tokens
        if self._ends[0] != given or tokens[: len(self._passed)] != self._passed:
            self._passed, self._ends = committed, [given]
        for end in self.context.words.ends(view.tokens, self._ends[-1] - given):
            before, after = tokens[: self._ends[-1]], tokens[: given + end]
            old, new = self._sure(before), self._sure(after)
            if old == new:
                self._warn_of_unknown_word(before, after)
            heard = self._until_end(old, new)
            if heard is not None:
                last = self._last(before, after, heard)
                self.discard = len(tokens) - given - self._without_space(view.tokens[: last - given])
                return True
            self._passed = after
            self._ends.append(given + end)
        return False

    def _until_end(self, old: Tokens, new: Tokens) -> Tokens | None:
        """The first tokens of `new`, until the speech ends; None: it does not end. The tokens of `old` were heard."""
        same = len(common_prefix([old, new]))
        odds = self._guide.odds_of_end(new, same, self.options.exact) if same < len(new) else []
        for n, value in enumerate(odds):
            self._odds = value
            if value > self.options.threshold:
                return new[: same + n]
        return None

    def why(self) -> str:
        if math.isnan(self._odds):
            return ""
        return f"the guide's log odds of the end {self._odds:+.2f}, threshold {self.options.threshold:g}"

    def _last(self, before: Tokens, after: Tokens, heard: Tokens) -> int:
        """The number of tokens to keep. The word in which the speech ends stays the last one."""
        return len(before) if common_prefix([self._spell(before), heard]) == heard else len(after)

    def _spell(self, tokens: Tokens) -> Tokens:
        """In the guide's tokens."""
        return self._guide.spell(self.context.words.text(tokens))

    def _sure(self, tokens: Tokens) -> Tokens:
        """Of the spelling, what no further word can change."""
        return self._spell(tokens)

    def _without_space(self, tokens: Tokens) -> int:
        """How many of the tokens are left, if no space may say that the last word is whole."""
        return len(tokens) - (self.context.words.whole(tokens) == len(tokens) > 0)

    def _warn_of_unknown_word(self, before: Tokens, after: Tokens) -> None:
        """If the guide can't spell the last word: once a process and guide."""
        text, model = self.context.words.text, self.options.model
        word = text(after)[len(text(before)) :].strip()
        if any(map(is_letter, word)) and model not in _WARNED and self._spell(before) == self._spell(after):
            _WARNED.add(model)
            logger.warning(
                "stop: the guide %s has no tokens for '%s', so such words pass unheard; if there are many, give a "
                "guide that was trained on text of the same kind.",
                model,
                word,
            )


class GuidedCharacters(Guided):
    """`CTCGuide` for one stream of a language without spaces."""

    def first(self, new: Tokens) -> Tokens:
        """The tokens that were heard. If the model ended the text, `ends` was not asked about the last one."""
        committed, words = self.context.committed(), self.context.words
        heard = self._until_end(self._spell(committed), self._spell(committed + new))
        if heard is None:
            return new
        ends = [len(committed) + end for end in [0, *words.ends(new)]]
        return new[: ends[self._kept(ends, committed + new, heard)] - len(committed)]

    def _sure(self, tokens: Tokens) -> Tokens:
        """The last token may change."""
        spelled = self._spell(tokens)
        return spelled[: max(len(self._spell(())), len(spelled) - 1)]

    def _last(self, before: Tokens, after: Tokens, heard: Tokens) -> int:
        """One character more than was heard: COMMIT gives it up."""
        ends = [*self._ends, len(after)]
        return ends[self._kept(self._ends, after, heard) + 1]

    def _kept(self, ends: Sequence[int], tokens: Tokens, heard: Tokens) -> int:
        """Which of the ends of characters to keep: the last one that is before the guide's last heard token.

        ends: the first one is that of the committed text, which is always kept.
        """
        for number in reversed(range(1, len(ends))):
            part = self._spell(tokens[: ends[number]])
            if part == heard[:-1][: len(part)]:
                return number
        return 0


@lru_cache(maxsize=4)
def _load(load_model: Callable[..., Any], path: str, checkpoint: str) -> tuple[int, Callable[[Opening], Guide]]:
    """A model's sample rate, and what opens its guide; loaded once a process.

    Raises SimulstError: it can't be loaded, or is of a kind that has no guide.
    """
    import torch  # heavy, and the guide needs it anyway

    threads = torch.get_num_threads()
    model = load_model(path, **({"checkpoint": checkpoint} if checkpoint else {}))
    torch.set_num_threads(threads)  # the large model's, as torch has one number for both
    open_guide = getattr(model, "guide", None)
    if open_guide is None:
        raise SimulstError(f"{path}: this kind of model has no CTC layer; give an ESPnet model trained with ST-CTC.")
    return model.sample_rate, open_guide
