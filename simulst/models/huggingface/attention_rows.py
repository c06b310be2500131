"""Rows of attention of a decoder-only model: chosen heads, over the span of positions where the source stands.

The source may be words of a chat or places of audio. Fused attention does not tell its weights, so the rows are
computed again beside it, for the chosen heads alone (arXiv 2606.03967, section 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from simulst.policy.context import HeadPairs


@dataclass(frozen=True)
class Wanted:
    """Which rows a search wants.

    heads: each as the number of its layer and its number there, counted from 0.
    begin, end: the span of positions whose weights are shown. A row sums to less than 1, as others are attended, too.
    first: the position of the first row: the last of the prompt, at which the first token of the text is chosen.
    """

    heads: HeadPairs
    begin: int
    end: int
    first: int


class Recorder:
    """Takes down rows while a model reads.

    wanted: of each search whose hypotheses are rows of the batch; None: it wants none.
    """

    def __init__(self, wanted: Sequence[Wanted | None]) -> None:
        self._wanted = wanted
        self._seen: list[dict[tuple[int, int], Tensor]] = [{} for _ in wanted]

    def see(
        self, layer: int, searches: Sequence[tuple[Tensor, Tensor]], mask: Tensor | None, scaling: float | None
    ) -> None:
        """What attention is called with, of each search: queries (n, heads, m, d), keys (n or 1, heads or fewer, T, d).

        mask: (n or 1, 1, m, T), whether a key is seen, or what is added to its score; None: each position sees all
            before it.
        """
        for (query, key), wanted, seen in zip(searches, self._wanted, self._seen, strict=True):
            heads = [head for number, head in wanted.heads if number == layer] if wanted else []
            if wanted is None or not heads:
                continue
            before = key.shape[2] - query.shape[2]  # positions that were read earlier
            start = max(0, wanted.first - before)
            keys = key[:, [head * key.shape[1] // query.shape[1] for head in heads]].float()
            factor = query.shape[3] ** -0.5 if scaling is None else scaling
            scores = query[:, heads, start:].float() @ keys.transpose(2, 3) * factor
            if mask is None:
                places = torch.arange(key.shape[2], device=key.device)
                scores = scores.masked_fill(places > places[before + start :, None], -torch.inf)
            elif mask.dtype == torch.bool:
                scores = scores.masked_fill(~mask[..., start:, : key.shape[2]], -torch.inf)
            else:
                scores = scores + mask[..., start:, : key.shape[2]]
            weights = torch.softmax(scores, -1)[..., wanted.begin : wanted.end]
            seen.update({(layer, head): weights[:, place] for place, head in enumerate(heads)})

    def rows(self, number: int) -> Tensor | None:
        """Of one search: (heads, n, positions from `first` on, span) float32; None: it wants none."""
        wanted = self._wanted[number]
        return torch.stack([self._seen[number][pair] for pair in wanted.heads]) if wanted else None


_recorder: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recorded(*wanted: Wanted | None) -> Iterator[Recorder]:
    """Take down rows of what a model reads inside. wanted: see `Recorder`."""
    recorder = Recorder(wanted)
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)


def recorder() -> Recorder | None:
    """What takes down rows now."""
    return _recorder.get()
