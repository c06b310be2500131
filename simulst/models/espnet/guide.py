"""The CTC layer of an ESPnet model, without its decoder, as a guide for another model's search."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from simulst.meter import Meter
from simulst.models.espnet.encoding import open_encoding
from simulst.search import Tokens
from simulst.search.beam import log_difference
from simulst.search.calls import run_alone
from simulst.search.ctc import CTCPrefixes, CTCPrefixScorer

if TYPE_CHECKING:
    from simulst.models.espnet.model import ESPnet


class ESPnetGuide:
    """One utterance. language: unwritten tokens that every text begins with."""

    def __init__(self, model: ESPnet, language: Tokens, meter: Meter) -> None:
        self._model, self._language, self._meter = model, language, meter
        self._encoding = open_encoding(model, meter)
        self._heard = 0  # parts of the encoding that the scorer has
        self._scorer: CTCPrefixScorer | None = None
        self._forced: CTCPrefixes | None = None

    def hear(self, samples: np.ndarray) -> None:
        """Take in audio, (n,) float32, and encode it as far as that can be done."""
        encoding, model = self._encoding, self._model
        encoding.extend(samples)
        run_alone(encoding.encode())
        if not model.blockwise:  # all of it was encoded again
            self._heard, self._scorer, self._forced = 0, None, None
        for part in encoding.parts[self._heard :]:
            log_probs = self._meter.shared(("ctc", part.key), lambda part=part: model.ctc(part.frames))  # type: ignore[misc]
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
        scorer = self._scorer
        if scorer is None:
            return [math.inf] * (len(tokens) - given)
        odds = []
        with torch.inference_mode():
            prefixes = self._forced = scorer.force(tokens[:given], self._forced)
            for token in tokens[given:]:
                row = torch.zeros(1, dtype=torch.long, device=scorer.device)
                complete = float(prefixes.complete)
                if exact:  # as in `BestHypothesis.odds_of_end`
                    more = log_difference(float(prefixes.score), complete)
                else:
                    more = float(scorer.score(prefixes, (row + token)[:, None]))
                odds.append(complete - more if more > -math.inf else math.inf)
                prefixes = scorer.extend(prefixes, row, row + token)
        return odds
