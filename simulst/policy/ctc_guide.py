"""STOP `ctc_guide`: a small model's CTC layer says where the search of a large one ends (CUNI-KIT 2023, section 3.5).

The two models may be of any families and have different vocabularies. So the guide is asked once a word is whole, in
the guide's own spelling. For each of the word's tokens it tells the odds that the speech ends before this token and
does not go on with it: those of the CTC policy, where the large model's word stands in for the decoder's favourite.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np

from simulst.errors import SimulstError
from simulst.meter import Meter
from simulst.needs import Need
from simulst.policy.commit import common_prefix
from simulst.policy.context import Context, View
from simulst.policy.read import check_name
from simulst.policy.stop import Stop, Stopping
from simulst.search import Tokens
from simulst.words import is_letter

logger = logging.getLogger(__name__)

_TOLD: set[str] = set()  # guides of which a warning was given


class Guide(Protocol):
    """A CTC layer that listens to one utterance. A model that has one opens it: `guide(source, target, meter)`."""

    def hear(self, samples: np.ndarray) -> None:
        """Take in audio, (n,) float32."""

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
    threshold: float
    exact: bool = False
    name: str = ""
    checkpoint: str = ""

    needs = frozenset({Need.AUDIO})
    whole_words = True
    ends_in_word = True

    def __post_init__(self) -> None:
        if math.isnan(self.threshold):
            raise SimulstError("stop: threshold is not a number; the paper's values lie between -2 and 2.")
        check_name(self.name, "stop")

    @property
    def files(self) -> tuple[str, ...]:  # type: ignore[override]
        in_folder = self.checkpoint and not Path(self.model).is_file()  # else it is a zip, which holds the weights
        return (f"{self.model}/{self.checkpoint}" if in_folder else self.model,)

    @property
    def label(self) -> str:
        return f"{self.curve[:-2]}{self.threshold:+g}"

    @property
    def curve(self) -> str:
        return "guide" + (f"-{self.name}" if self.name else "") + ("-exact" if self.exact else "") + "-n"

    @property
    def swept(self) -> float | None:
        return self.threshold

    def open(self, context: Context) -> Stopping:
        """Raises SimulstError: no such model, one without a CTC layer, of other languages or another sample rate."""
        try:
            rate, open_guide = _load(self.model, self.checkpoint)
            guide = open_guide(*context.languages, context.meter.part(("guide", self.model, self.checkpoint)))
        except SimulstError as error:
            raise SimulstError(f"stop: the guide {error}") from error
        if rate != context.sample_rate:
            raise SimulstError(
                f"stop: the guide {self.model} hears {rate} Hz, and the model {context.sample_rate} Hz; give another."
            )
        return Guided(self, guide, context)

    def ends(self, view: View) -> bool:
        raise AssertionError("the guide is opened first")


class Guided(Stopping):
    """`CTCGuide` for one stream. What it says follows from the audio and the tokens alone."""

    def __init__(self, options: CTCGuide, guide: Guide, context: Context) -> None:
        self._options, self._guide, self._context = options, guide, context
        # The words at which the last search went on: all tokens, and where each new word ends (first: the committed).
        self._passed: Tokens = ()
        self._ends = [0]

    @property
    def options(self) -> Stop:
        return self._options

    def hear(self, samples: np.ndarray, final: bool) -> None:
        if not final:  # then nobody asks
            self._guide.hear(samples)
            self._passed, self._ends = (), [0]

    def ends(self, view: View) -> bool:
        """Whether a word is whole by now that the guide has not heard to its end."""
        committed = self._context.committed()
        given, tokens = len(committed), committed + view.tokens
        if self._ends[0] != given or tokens[: len(self._passed)] != self._passed:
            self._passed, self._ends = committed, [given]
        for end in self._context.words.ends(view.tokens, self._ends[-1] - given):
            heard = self._heard(tokens[: self._ends[-1]], tokens[: given + end])
            if heard is not None:
                # The word in which the speech ends stays the last one.
                last = given + end if heard else self._ends[-1]
                self.discard = len(tokens) - given - self._without_space(view.tokens[: last - given])
                return True
            self._passed = tokens[: given + end]
            self._ends.append(given + end)
        return False

    def _heard(self, before: Tokens, after: Tokens) -> int | None:
        """How many of the guide's tokens in the last word of `after` were heard; None: all of them.

        before: the tokens without this word.
        """
        guide, text = self._guide, self._context.words.text
        old, new = guide.spell(text(before)), guide.spell(text(after))
        same = len(common_prefix([old, new]))
        if same == len(new):
            self._tell_of_strange(text(after)[len(text(before)) :])
            return None
        odds = guide.odds_of_end(new, same, self._options.exact)
        return next((heard for heard, value in enumerate(odds) if value > self._options.threshold), None)

    def _without_space(self, tokens: Tokens) -> int:
        """How many of the tokens are left, if no space may say that the last word is whole."""
        return len(tokens) - (self._context.words.whole(tokens) == len(tokens) > 0)

    def _tell_of_strange(self, word: str) -> None:
        """Once a process and guide."""
        model = self._options.model
        if any(map(is_letter, word)) and model not in _TOLD:
            _TOLD.add(model)
            logger.warning(
                "stop: the guide %s has no tokens for '%s', so such words pass unheard; if there are many, give a "
                "guide that was trained on text of the same kind.",
                model,
                word.strip(),
            )


@lru_cache(maxsize=4)
def _load(path: str, checkpoint: str) -> tuple[int, Callable[[str, str, Meter], Guide]]:
    """A model's sample rate, and what opens its guide; loaded once a process.

    Raises SimulstError: it can't be loaded, or is of a kind that has no guide.
    """
    import torch  # heavy, and the guide needs it anyway

    from simulst.models import load_model

    threads = torch.get_num_threads()
    model = load_model(path, **({"checkpoint": checkpoint} if checkpoint else {}))
    torch.set_num_threads(threads)  # the large model's, as torch has one number for both
    open_guide = getattr(model, "guide", None)
    if open_guide is None:
        raise SimulstError(f"{path}: this kind of model has no CTC layer; give an ESPnet model trained with ST-CTC.")
    return model.sample_rate, open_guide
