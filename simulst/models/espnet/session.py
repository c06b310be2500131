"""One utterance inside an ESPnet model. This file has the search, encoding.py the encoding and window.py the window."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

import numpy as np
from torch import Tensor

from simulst.background import Background
from simulst.calls import Batched, Steps
from simulst.errors import warn_once
from simulst.hypotheses import Found, Tokens
from simulst.models.espnet.encoding import BlockwiseEncoding, Encoded, open_encoding
from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.models.espnet.network.lagging import Chunked, Lagging
from simulst.models.espnet.network.recurrent_decoder import Carried, RecurrentDecoder
from simulst.models.espnet.parts import Parts
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.context import WaitToken
from simulst.policy.stop import Stopping
from simulst.search import BWBS, IBWBS, JointOptions, SearchOptions, draft_after
from simulst.search.beam import JointSearch, joint_beam_search
from simulst.search.blockwise import KeptSearch
from simulst.search.terms import Terms, terms_of
from simulst.session import Session, Traits, share_search

LONG_SECONDS = 60  # of audio; a corpus's utterances are shorter


class ESPnetSession(Session):
    """One utterance.

    model: the loaded model.
    opening: what is known of it.
    language: tokens that every hypothesis begins with and that are never written, such as a language token.
    """

    def __init__(self, model: Parts, opening: Opening, language: Tokens) -> None:
        super().__init__(opening)
        self._model, self._language = model, language
        self._encoding = open_encoding(model, opening.meter)
        self._search: JointSearch | None = None
        self._terms: Terms | None = None
        self._searched = 0  # how many parts of the encoding it has
        self._kept = KeptSearch()
        self._evicted: Tokens = ()  # committed tokens that have left the window
        self._last: Tokens = ()  # what the last step found
        self._draft: Tokens = ()  # what this one takes of it
        self._seen = 0  # frames up to the last one of the last search, if there is a window
        gives = {Need.STEPS, Need.INCREMENTAL, Need.KEPT_BEAM, Need.ATTENTION, Need.DISTRIBUTION}
        gives |= {Need.DIVERGENCE} if model.head else set()
        gives |= {Need.BLOCKS} if model.blockwise else set()
        gives |= {Need.CTC} if model.has_ctc else set()
        decoder = model.decoder
        gives |= {Need.DRAFT} if isinstance(decoder, CachedDecoder) else set()
        self._decoder = Carried(decoder) if isinstance(decoder, RecurrentDecoder) else decoder
        layers, heads = decoder.attentions
        lagging = decoder.lagging if isinstance(decoder, CachedDecoder) else None
        wait = (lagging.k, lagging.unit_ms, lagging.writes) if isinstance(lagging, Lagging) else None
        token = None
        if isinstance(lagging, Chunked):
            token = WaitToken(lagging.wait, model.vocabulary.lags, lagging.first_ms, lagging.ms)
        self.traits = Traits(frozenset(gives), model.search, layers=layers, heads=heads, trained_wait=wait, wait=token)

    @property
    def length(self) -> int:
        return self._encoding.length

    @property
    def available(self) -> int:
        return self._encoding.available

    @property
    def _window_key(self) -> Hashable:
        """What a search sees."""
        if isinstance(self._decoder, Carried):
            return None  # what is found depends on the states that are carried on, and so on all steps before
        parts = self._encoding.parts
        first = parts[0].first if parts else 0
        return self.length, self._encoding.final, first, self._evicted, self.opening.background

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        self._encoding.extend(samples, final)

    def text(self, tokens: Tokens) -> str:
        return self._model.text(tokens)

    def spell(self, text: str) -> Tokens:
        return self._model.vocabulary.spell(text)

    def block_end(self, count: int) -> float:
        if not isinstance(self._encoding, BlockwiseEncoding):
            return super().block_end(count)
        return self._encoding.block_end(count)

    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        if not self._model.window_frames and self.length > LONG_SECONDS * self.traits.sample_rate:
            blockwise = self._model.blockwise is not None
            window = ", or give the model a window (--model-option window=30)" if blockwise else ""
            warn_once(
                f"{self._model.path}: the audio is longer than {LONG_SECONDS} s, and the model looks back on all of "
                f"it, so each step takes longer than the one before; cut the stream at its pauses ('segment'){window}."
            )
        yield from self._encoding.encode()  # also before a search that is shared: each stream pays for its own encoding
        self._draft = draft_after(committed, options, self._last)
        key = self._window_key and (self._window_key, self._draft)
        found = yield from share_search(self.meter, key, self._found, committed, options, stop)
        self._last = found.best
        return found

    def _found(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        assert isinstance(options, JointOptions)
        committed = self._language + committed[len(self._evicted) :]
        found = yield from self._search_window(committed, options, stop)
        if self._evicted or self._language:
            cut = len(self._language)
            found = replace(found, beam=[replace(h, tokens=self._evicted + h.tokens[cut:]) for h in found.beam])
        return found

    def _search_window(self, committed: Tokens, options: JointOptions, stop: Stopping | None) -> Steps[Found]:
        search = self._open_search(options, stop)
        if isinstance(options, BWBS) and isinstance(self._encoding, BlockwiseEncoding):
            return (yield from self._search_blocks(self._encoding, search, committed, options, stop))
        for part in self._new_parts():
            search.append(part.frames, (yield from self._log_probs(search, part)))
        if isinstance(options, BWBS | IBWBS):
            return (yield from self._kept.step(search, options, committed, stop, self._encoding.final))
        return Found((yield from joint_beam_search(search, committed, stop, draft=self._draft)))

    def _search_blocks(
        self, encoding: BlockwiseEncoding, search: JointSearch, committed: Tokens, options: BWBS, stop: Stopping | None
    ) -> Steps[Found]:
        """As in ESPnet, every block is searched, even if several blocks come at once.

        Blocks that were searched before the window slid are only context.
        """
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
                new = end > self._seen
        return (yield from self._kept.step(search, options, committed, stop, encoding.final))

    def tell(self, background: Background) -> None:
        super().tell(background)
        self._terms = None

    def _open_search(self, options: JointOptions, stop: Stopping | None) -> JointSearch:
        """The search over the window's frames. With a full-context encoder all frames are new, and so is the search."""
        if self._search is None or not self._model.blockwise:
            vocabulary = self._model.vocabulary
            with_ctc = stop is not None and Need.CTC in stop.options.needs
            sos, eos, heads = vocabulary.sos, vocabulary.eos, self._model.alignment_heads
            head, wait, spoken = self._model.head, vocabulary.wait, vocabulary.spoken
            foresees = None if head is None else head.foresee
            self._search = JointSearch(
                self._decoder, options, sos, eos, with_ctc, None, heads, wait=wait, spoken=spoken, foresees=foresees
            )
            self._searched = 0
        if self._terms is None or self._terms.bonus != options.terms_bonus:
            background, vocabulary = self.opening.background, self._model.vocabulary
            size, target = len(vocabulary.tokens), self.opening.target
            self._terms = terms_of(background, options, target, vocabulary.spell, self._model.text, size)
        self._search.terms = self._terms
        return self._search

    def _new_parts(self) -> Iterator[Encoded]:
        """The parts that the search does not have yet."""
        for part in self._encoding.parts[self._searched :]:
            self._searched += 1
            yield part

    def _log_probs(self, search: JointSearch, part: Encoded) -> Steps[Tensor | None]:
        if not search.with_ctc:
            return None
        call = Batched(self._model.ctc_together, part.frames, len(part.frames))
        return (yield from self.meter.shared_call(("ctc", part.key), call))
