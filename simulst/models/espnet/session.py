"""One utterance inside an ESPnet model. This file has the search and the window; encoding.py has the encoding."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from simulst.calls import Steps, ask
from simulst.hypotheses import Found, Tokens, without_end
from simulst.meter import Meter
from simulst.models.espnet.encoding import BlockwiseEncoding, Encoded, Posteriors, open_encoding
from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.models.espnet.network.recurrent_decoder import Carried, RecurrentDecoder
from simulst.models.espnet.parts import Parts
from simulst.needs import Need
from simulst.policy.stop import Stopping
from simulst.search import BWBS, IBWBS, JointOptions, SearchOptions
from simulst.search.beam import JointSearch, joint_beam_search
from simulst.search.blockwise import KeptSearch
from simulst.search.terms import Terms, terms_of
from simulst.session import Session

LONG_SECONDS = 60  # of audio; a corpus's utterances are shorter

logger = logging.getLogger(__name__)


@functools.cache
def warn_of_long_streams(path: Path, blockwise: bool) -> None:
    """Warn, once per model, that it has no window."""
    logger.warning(
        "%s: the audio is longer than %d s, and the model looks back on all of it, so each step takes longer "
        "than the one before; cut the stream at its pauses ('segment')%s.",
        path,
        LONG_SECONDS,
        ", or give the model a window (--model-option window=30)" if blockwise else "",
    )


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


class ESPnetSession(Session):
    """One utterance.

    model: the loaded model.
    language: tokens that every hypothesis begins with and that are never written, such as a language token.
    meter: the clock of the stream.
    """

    def __init__(self, model: Parts, language: Tokens, meter: Meter) -> None:
        super().__init__(meter)
        self._model, self._language = model, language
        self._encoding = open_encoding(model, meter)
        self._search: JointSearch | None = None
        self._terms: Terms | None = None
        self._searched = 0  # how many parts of the encoding it has
        self._kept = KeptSearch()
        self._evicted: Tokens = ()  # committed tokens that have left the window
        self._steps: list[_Step] = []  # the steps whose frames are in the window; empty if there is no window
        self.gives = frozenset(
            {Need.STEPS, Need.INCREMENTAL, Need.KEPT_BEAM, Need.ATTENTION}
            | ({Need.BLOCKS} if model.blockwise else set())
            | ({Need.CTC} if model.has_ctc else set())
        )
        decoder = model.decoder
        self._decoder = Carried(decoder) if isinstance(decoder, RecurrentDecoder) else decoder
        self.layers, self.heads = decoder.attentions
        self.default_search = model.search
        lagging = decoder.lagging if isinstance(decoder, CachedDecoder) else None
        self.trained_wait = (lagging.k, lagging.unit_ms, lagging.writes) if lagging else None

    @property
    def length(self) -> int:
        return self._encoding.length

    @property
    def available(self) -> int:
        return self._encoding.available

    @property
    def key(self) -> Hashable:
        if isinstance(self._decoder, Carried):
            return None  # what is found depends on the states that are carried on, and so on all steps before
        parts = self._encoding.parts
        return self.length, self._encoding.final, parts[0].first if parts else 0, self._evicted

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        self._encoding.extend(samples, final)

    def text(self, tokens: Tokens) -> str:
        return self._model.text(tokens)

    def spell(self, text: str) -> Tokens:
        return self._model.vocabulary.spell(text)

    def block_end(self, count: int) -> float:
        assert isinstance(self._encoding, BlockwiseEncoding)
        return self._encoding.block_end(count)

    def encode_steps(self) -> Steps[None]:
        return self._encoding.encode()

    def find_steps(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        """The window keeps count of what was found."""
        if not self._model.window_frames and self.length > LONG_SECONDS * self.sample_rate:
            warn_of_long_streams(self._model.path, self._model.blockwise is not None)
        found = yield from super().find_steps(committed, options, stop)
        if self._model.window_frames:
            sure = max(len(committed), len(found.best) - found.held_back)
            self._steps.append(_Step(self._encoding.end, len(without_end(found.best)), sure))
        return found

    def search_steps(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        assert isinstance(options, JointOptions)
        found = yield from self._search_window(self._language + committed[self.evicted :], options, stop)
        if self._evicted or self._language:
            cut = len(self._language)
            found = replace(found, beam=[replace(h, tokens=self._evicted + h.tokens[cut:]) for h in found.beam])
        return found

    # ---- the window ----

    @property
    def evicted(self) -> int:
        return len(self._evicted)

    def limit(self) -> float:
        """The length at which half a window of frames is unsearched. A later step could lose frames unsearched."""
        most = self._model.window_frames
        if not most:
            return math.inf
        assert isinstance(self._encoding, BlockwiseEncoding)
        searched = self._steps[-1].end if self._steps else 0
        return self._encoding.length_of(searched + most // 2)

    def is_full(self) -> bool:
        """Whether the next block would not fit into the window."""
        most, parts = self._model.window_frames, self._encoding.parts
        return bool(most and parts) and self._encoding.end - parts[0].first + self._hop > most

    def spoken(self, best: Tokens) -> Tokens:
        """The tokens that had been found by the first search that saw more than the leaving audio."""
        edge = self._first_kept()
        found = next((step.found for step in self._steps if step.end > edge), len(best))
        return best[:found]

    def slide(self, committed: Tokens) -> None:
        """Drop the older half of the window, and the tokens that were found in it."""
        edge = self._first_kept()
        leaving = max([self.evicted, *(step.sure for step in self._steps if step.end <= edge)])
        leaving = min(leaving, len(committed))  # what was sure need not have been committed
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
        return next((p.first for p in parts if end - p.first <= self._model.window_frames // 2), parts[-1].first)

    @property
    def _hop(self) -> int:
        assert self._model.blockwise is not None
        return self._model.blockwise.hop_size

    # ---- searches over what the window holds ----

    def _search_window(self, committed: Tokens, options: JointOptions, stop: Stopping | None) -> Steps[Found]:
        search = self._open_search(options, stop)
        if isinstance(options, BWBS) and isinstance(self._encoding, BlockwiseEncoding):
            return (yield from self._search_blocks(self._encoding, search, committed, options, stop))
        yield from self._append_all(search)
        if isinstance(options, BWBS | IBWBS):
            return (yield from self._kept.step(search, options, committed, stop, self._encoding.final))
        return Found((yield from joint_beam_search(search, committed, stop)))

    def _search_blocks(
        self, encoding: BlockwiseEncoding, search: JointSearch, committed: Tokens, options: BWBS, stop: Stopping | None
    ) -> Steps[Found]:
        """As in ESPnet, every block is searched, even if several blocks come at once.

        Blocks that were searched before the window slid are only context.
        """
        searched = self._steps[-1].end if self._steps else 0
        new = False  # whether `search` has frames that were not searched
        for part in self._new_parts():
            end = part.first
            sizes = encoding.block_sizes(part)
            log_probs = yield from self._log_probs(search, part)
            scores = [None] * len(sizes) if log_probs is None else log_probs.split(sizes)
            for frames, frame_scores in zip(part.frames.split(sizes), scores, strict=True):
                if new:
                    yield from self._kept.step(search, options, committed, stop, final=False)
                search.append(frames, frame_scores)
                end += len(frames)
                new = end > searched
        return (yield from self._kept.step(search, options, committed, stop, encoding.final))

    def _open_search(self, options: JointOptions, stop: Stopping | None) -> JointSearch:
        """The search over the window's frames. With a full-context encoder all frames are new, and so is the search."""
        if self._search is None or not self._model.blockwise:
            vocabulary = self._model.vocabulary
            with_ctc = stop is not None and Need.CTC in stop.options.needs
            if self._terms is None or self._terms.bonus != options.terms_bonus:
                spell, size = vocabulary.spell, len(vocabulary.tokens)
                self._terms = terms_of(self.background, options, self.languages[1], spell, self._model.text, size)
            sos, eos = vocabulary.sos, vocabulary.eos
            self._search = JointSearch(self._decoder, options, sos, eos, with_ctc, self._terms)
            self._searched = 0
        return self._search

    def _append_all(self, search: JointSearch) -> Steps[None]:
        for part in self._new_parts():
            log_probs = yield from self._log_probs(search, part)
            search.append(part.frames, log_probs)

    def _new_parts(self) -> Iterator[Encoded]:
        """The parts that the search does not have yet."""
        for part in self._encoding.parts[self._searched :]:
            self._searched += 1
            yield part

    def _log_probs(self, search: JointSearch, part: Encoded) -> Steps[Tensor | None]:
        if not search.with_ctc:
            return None
        call = Posteriors(self._model, part.frames)
        return (yield from self.meter.shared_steps(("ctc", part.key), lambda: ask(call)))
