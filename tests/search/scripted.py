"""A decoder whose scores are written down, and all that a CTC layer may say."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping
from typing import Any

import torch

from simulst.hypotheses import Tokens

A, B, C, D, END = range(1, 6)


def texts_of(log_probs: torch.Tensor) -> dict[Tokens, float]:
    """The probability of each text by a CTC layer's log posteriors, (T, V), over all alignments."""
    rows, texts = log_probs.exp().tolist(), dict[Tokens, float]()
    for labels in itertools.product(range(log_probs.shape[1]), repeat=len(rows)):
        text = tuple(label for label, _ in itertools.groupby(labels) if label)
        texts[text] = texts.get(text, 0.0) + math.prod(row[label] for row, label in zip(rows, labels, strict=True))
    return texts


class Scores(Mapping[Tokens, Mapping[int, float]]):
    """Log probabilities of the next token after any text, other ones in each block."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __getitem__(self, text: Tokens) -> Mapping[int, float]:
        draw = random.Random(f"{self.seed} {text}")
        weights = [draw.random() ** 3 + 1e-3 for _ in (A, B, C, END)]
        return {token: math.log(w / sum(weights)) for token, w in zip((A, B, C, END), weights, strict=True)}

    def get(self, text: Any, default: Any = None) -> Any:
        return self[text]

    def __iter__(self) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


class Script:
    """A decoder that has log p by heart: for each text, of its next tokens; by the number of frames.

    Tokens that are not named have so little that they never come.
    """

    def __init__(self, *blocks: Mapping[Tokens, Mapping[int, float]]) -> None:
        self.blocks = blocks

    class Memory(list[torch.Tensor]):
        pass

    class State(list[Tokens]):
        attention: torch.Tensor | None = None

        def __getitem__(self, rows: Any) -> Any:
            return Script.State(list.__getitem__(self, row) for row in rows.tolist())

    def memory(self) -> Any:
        return Script.Memory()

    def start(self) -> Any:
        return Script.State([()])

    def step(self, tokens: torch.Tensor, state: Any, memory: Any, *, attention: bool = False) -> Any:
        pairs = zip(list(state), tokens.tolist(), strict=True)
        read = Script.State([*text, token] if token != END else list(text) for text, token in pairs)
        log_p = torch.full((len(read), END + 1), -1000.0)
        for row, text in enumerate(list(read)):
            for token, value in self.blocks[len(memory) - 1].get(tuple(text), {END: -0.01}).items():
                log_p[row, token] = value
        return log_p, read

    def prefill(self, tokens: torch.Tensor, memory: Any, *, attention: bool = False) -> Any:
        state = self.start()
        for token in tokens:
            log_p, state = self.step(token[None], state, memory)
        return log_p, state
