"""The CTC layer of an ESPnet model, without its decoder, as a guide for another model's search."""

from __future__ import annotations

import math

import numpy as np

from simulst.calls import Batched, Steps
from simulst.hypotheses import Tokens
from simulst.meter import Meter
from simulst.models.espnet.encoding import open_encoding
from simulst.models.espnet.parts import Parts
from simulst.search.beam import going_on
from simulst.search.ctc import CTCPrefixes, CTCPrefixScorer


class ESPnetGuide:
    """One utterance. language: unwritten tokens that every text begins with."""

    def __init__(self, model: Parts, language: Tokens, meter: Meter) -> None:
        self._model, self._language, self._meter = model, language, meter
        self._encoding = open_encoding(model, meter)
        self._heard = 0  # parts of the encoding that the scorer has
        self._scorer: CTCPrefixScorer | None = None
        self._known: list[tuple[Tokens, CTCPrefixes]] = []  # beginnings of the last text, the longest one last

    def hear(self, samples: np.ndarray) -> Steps[None]:
        """Take in audio, (n,) float32, and encode it as far as that can be done."""
        encoding, model = self._encoding, self._model
        encoding.extend(samples)
        yield from encoding.encode()
        if not model.blockwise:  # all of it was encoded again
            self._heard, self._scorer, self._known = 0, None, []
        for part in encoding.parts[self._heard :]:
            call = Batched(model.ctc_together, part.frames, len(part.frames))
            log_probs = yield from self._meter.shared_call(("ctc", part.key), call)
            if self._scorer is None:
                self._scorer = CTCPrefixScorer(log_probs)
            else:
                self._scorer.append(log_probs)
        self._heard = len(encoding.parts)

    def spell(self, text: str) -> Tokens:
        """The text in the guide's tokens; see `Vocabulary.spell`."""
        return self._language + self._model.vocabulary.spell(text)

    def odds_of_end(self, tokens: Tokens, given: int, exact: bool) -> list[float]:
        """For each token from number `given` on: log odds that the speech ends before it and does not go on with it.

        exact: nor with any other token (CUNI-KIT 2023, equation 4). Where nothing can follow, they are infinite.
        """
        if self._scorer is None:
            return [math.inf] * (len(tokens) - given)
        odds = []
        prefixes = self._prefixes(self._scorer, tokens[:given])
        for end in range(given + 1, len(tokens) + 1):
            complete = float(prefixes.complete[0])
            more = going_on(self._scorer, prefixes, self._model.vocabulary.eos) if exact else 0.0
            prefixes = self._prefixes(self._scorer, tokens[:end])
            if not exact:
                more = float(prefixes.score[0])
            odds.append(complete - more if more > -math.inf else math.inf)
        return odds

    def _prefixes(self, scorer: CTCPrefixScorer, tokens: Tokens) -> CTCPrefixes:
        """Those of a text over all frames so far, from those of its longest known beginning."""
        while self._known and self._known[-1][0] != tokens[: len(self._known[-1][0])]:
            self._known.pop()
        prefixes = scorer.force(tokens, self._known[-1][1] if self._known else None)
        if self._known and self._known[-1][0] == tokens:  # over fewer frames
            self._known.pop()
        self._known.append((tokens, prefixes))
        return prefixes
