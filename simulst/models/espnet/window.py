"""The window of a stream without end inside an ESPnet model with a blockwise encoder.

It is counted in encoder frames. If the next block does not fit, the older half of the window leaves with its tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from simulst.calls import Steps
from simulst.hypotheses import Found, Tokens, without_end
from simulst.models.espnet.encoding import BlockwiseEncoding
from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.models.espnet.parts import Parts
from simulst.models.espnet.session import ESPnetSession
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.stop import Stopping
from simulst.search import SearchOptions
from simulst.session import Window


@dataclass(frozen=True)
class _Step:
    """What one step's search found.

    end: how many encoder frames had been written.
    found: how many tokens the best hypothesis had.
    sure: how many of them were committed already or not held back.
    """

    end: int
    found: int
    sure: int


class WindowedESPnetSession(ESPnetSession, Window):
    """One utterance of any length. The model has `window_frames`."""

    _encoding: BlockwiseEncoding

    def __init__(self, model: Parts, opening: Opening, language: Tokens) -> None:
        super().__init__(model, opening, language)
        assert model.blockwise is not None
        self._most, self._hop = model.window_frames, model.blockwise.hop_size
        self._steps: list[_Step] = []  # the steps whose frames are in the window
        self.traits = replace(self.traits, gives=self.traits.gives | {Need.LEAVING})

    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        """The window keeps count of what was found."""
        found = yield from super().search(committed, options, stop)
        self._seen = self._encoding.end
        sure = max(len(committed), len(found.best) - found.held_back)
        self._steps.append(_Step(self._seen, len(without_end(found.best)), sure))
        return found

    def limit(self) -> float:
        """The length at which half a window of frames is unsearched. A later step could lose frames unsearched."""
        return self._encoding.length_of(self._seen + self._most // 2)

    def leaving(self, best: Tokens) -> Tokens | None:
        """If the next block would not fit: the tokens that the first search found that saw more than that audio."""
        parts = self._encoding.parts
        if not parts or self._encoding.end - parts[0].first + self._hop <= self._most:
            return None
        edge = self._first_kept()
        found = next((step.found for step in self._steps if step.end > edge), len(best))
        return best[:found]

    def slide(self, committed: Tokens) -> None:
        """Drop the older half of the window, and the tokens that were found in it."""
        edge = self._first_kept()
        leaving = max([self.evicted, *(step.sure for step in self._steps if step.end <= edge)])
        self._leave(edge, min(leaving, len(committed)), committed)  # what was sure need not have been committed

    def drop(self, committed: Tokens, count: int) -> None:
        """All parts leave before that one to which the first token that stays attends most."""
        parts, decoder = self._encoding.parts, self._model.decoder
        assert isinstance(decoder, CachedDecoder), "a blockwise encoder has no other"
        memory = decoder.memory()
        for part in parts:
            memory.append(part.frames)
        read = (self._model.vocabulary.sos, *self._language, *committed[self.evicted : self.evicted + count])
        _, state = decoder.prefill(torch.tensor(read, device=parts[0].frames.device), memory, attention=True)
        assert state.attention is not None
        frame = parts[0].first + int(state.attention.mean(0)[0, 0].argmax())
        edge = max(part.first for part in parts if part.first <= frame)
        if edge > parts[0].first:  # if not, the words would be translated again
            self._leave(edge, self.evicted + count, committed)

    def _leave(self, edge: int, leaving: int, committed: Tokens) -> None:
        """Drop the frames before `edge`, and the first `leaving` tokens."""
        window = self._language + committed[self.evicted :]
        self._kept.slide(window, len(self._language), leaving - self.evicted)
        self._evicted = committed[:leaving]
        self._steps = [step for step in self._steps if step.end > edge]
        parts = self._encoding.parts
        while parts[0].first < edge:
            parts.pop(0)
        self._search = None

    def _first_kept(self) -> int:
        """The first frame that stays when the window slides. With the next block, half of the window is used then."""
        parts, end = self._encoding.parts, self._encoding.end + self._hop
        return next((p.first for p in parts if end - p.first <= self._most // 2), parts[-1].first)
