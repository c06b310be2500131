"""A loaded Hugging Face model, and one utterance inside of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulst.audio.units import SAMPLE_RATE
from simulst.hypotheses import Beam, Found, Hypothesis, Tokens
from simulst.meter import Meter
from simulst.models.huggingface.alignment import monotonic_frames
from simulst.models.huggingface.architectures import Architecture, Encoded
from simulst.models.huggingface.decoder import SteppedDecoder, sizes_of
from simulst.models.window import WindowedSession, tell_of_full_context
from simulst.needs import Need
from simulst.policy.stop import Stopping
from simulst.search import BWBS, IBWBS, JointBeamSearch, JointOptions, SearchOptions
from simulst.search.beam import JointSearch, joint_beam_search, mean_attention
from simulst.search.blockwise import BlockwiseBeamSearch, IncrementalBlockwiseBeamSearch
from simulst.search.calls import Steps, run_alone
from simulst.search.loops import without_loops
from simulst.search.terms import Terms

BEAM = 5


class HuggingFace:
    """An encoder-decoder model. loading.py makes it from files."""

    sample_rate = SAMPLE_RATE

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        architecture.prepare()

    def session(self, source: str, target: str, meter: Meter | None = None) -> HuggingFaceSession:
        """A new utterance. Raises SimulstError: a language that the model does not have."""
        self.architecture.prompt(source, target)
        return HuggingFaceSession(self.architecture, source, target, meter or Meter())


@dataclass(frozen=True)
class Encode:
    """A call: the encoder's frames of audio, (n,) float32."""

    architecture: Architecture
    samples: np.ndarray

    def answer(self) -> Encoded:
        return self.architecture.encode(self.samples)


class HuggingFaceSession(WindowedSession):
    """The window's audio is encoded again at each step, the committed text is the forced beginning of the search."""

    gives = frozenset({Need.STEPS, Need.INCREMENTAL, Need.KEPT_BEAM, Need.ATTENTION, Need.END_TIMES})

    def __init__(self, architecture: Architecture, source: str, target: str, meter: Meter) -> None:
        super().__init__(architecture.window_seconds, meter)
        self._model, self._languages = architecture, (source, target)
        ratio = architecture.tokens_per_frame
        self.default_search = JointBeamSearch(beam=BEAM, ctc_weight=0.0, max_length_ratio=ratio)
        self.layers, self.heads = sizes_of(architecture.model)
        self._incremental: IncrementalBlockwiseBeamSearch | None = None
        self._blockwise: BlockwiseBeamSearch | None = None
        self._final = False
        self._before: Tokens = ()  # text before the utterance
        self._states: tuple[tuple[int, int], Encoded] | None = None  # of the encoder, and of which window they are
        self._terms: Terms | None = None
        # The last search, and over what and how it was.
        self._open: tuple[Encoded, tuple[JointOptions, Tokens], JointSearch] | None = None

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        super().extend(samples, final)
        self._final = final

    def remember(self, text: str) -> None:
        if self._model.shows_previous and text:
            self._before = self._model.tokens(text, self._languages[1])

    def _leave(self, tokens: int, samples: int, committed: Tokens) -> None:
        if self._incremental is not None:
            self._incremental.forget(self._in_window(committed), 0, tokens)
        self._blockwise = None  # its decoder states have read what leaves
        super()._leave(tokens, samples, committed)

    def text(self, tokens: Tokens) -> str:
        return self._model.text(tokens)

    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Found:
        return run_alone(self.search_steps(committed, options, stop))

    def search_steps(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        """As `search`, but whoever drives it answers its calls (see simulst/search/calls.py)."""
        prefix = self._in_window(committed)
        if len(prefix) >= self._model.positions - len(self._prompt()):
            tell_of_full_context(self._model.path, self._model.positions)
            return Found([Hypothesis(committed)])
        if isinstance(options, IBWBS | BWBS):
            found = yield from self._by_blocks(prefix, options, stop)
            return replace(found, beam=[replace(h, tokens=self._gone + h.tokens) for h in found.beam])
        assert isinstance(options, JointBeamSearch)
        key = (
            "search",
            self._key,
            self._before,
            self._shown,
            self._gone,
            prefix,
            options,
            stop.options if stop else None,
        )
        yield from self._encoded()  # not within the search: whoever takes that from the memo pays for both
        beam = yield from self.meter.shared_steps(key, lambda: self._joint(prefix, options, stop))
        return Found([Hypothesis(self._gone + h.tokens, h.score) for h in beam])

    def _joint(self, prefix: Tokens, options: JointBeamSearch, stop: Stopping | None) -> Steps[Beam]:
        encoded = yield from self._encoded()
        if not encoded.heard:
            return [Hypothesis(prefix)]
        return (
            yield from without_loops(
                options, lambda used: joint_beam_search(self._search_over(encoded, used), prefix, stop)
            )
        )

    def _by_blocks(self, prefix: Tokens, options: IBWBS | BWBS, stop: Stopping | None) -> Steps[Found]:
        encoded = yield from self._encoded()
        if not encoded.heard:
            return Found([Hypothesis(prefix)])
        search = self._search_over(encoded, options)
        kept: IncrementalBlockwiseBeamSearch | BlockwiseBeamSearch
        if isinstance(options, IBWBS):
            kept = self._incremental = self._incremental or IncrementalBlockwiseBeamSearch(search, options)
        else:
            kept = self._blockwise = self._blockwise or BlockwiseBeamSearch(search, options)
        kept.search = search
        return (yield from kept.step(prefix, stop, self._final))

    def _encoded(self) -> Steps[Encoded]:
        # The memo is asked only once: without a memo, the same window is encoded only once, too.
        if self._states is None or self._states[0] != self._key:
            self._states = self._key, (yield from self.meter.shared_steps(("encode", self._key), self._encode))
        return self._states[1]

    def _encode(self) -> Steps[Encoded]:
        return (yield Encode(self._model, self._audio))

    def _search_over(self, encoded: Encoded, options: JointOptions) -> JointSearch:
        """A search whose decoder knows what it has read of these frames before."""
        prompt = self._prompt()
        if self._open is None or self._open[0] is not encoded or self._open[1] != (options, prompt):
            model = self._model
            never_first = () if self._gone or self._previous() else model.never_first
            decoder = SteppedDecoder(model.model, prompt, model.never, never_first, encoded.heard)
            most = max(1, model.positions - len(prompt)) / encoded.heard
            bounded = replace(options, max_length_ratio=min(options.length_ratio, most))
            if self._terms is None or self._terms.bonus != options.terms_bonus:
                self._terms = model.terms(self.background, options, self._languages[1])
            search = JointSearch(
                decoder,
                bounded,
                model.eos,
                model.eos,
                terms=self._terms,
                alignment_heads=model.alignment_heads,
                end_times=self.end_times,
            )
            search.append(encoded.frames)
            self._open = (encoded, (options, prompt), search)
        return self._open[2]

    def _prompt(self) -> Tokens:
        return self._model.prompt(*self._languages, self._previous())

    def _previous(self) -> Tokens:
        """The text that the prompt shows: of the recording's background, before the utterance, before the window."""
        if not self._model.shows_previous:
            return ()
        known = self.background.target_text
        told = self._model.tokens(known, self._languages[1]) if known else ()
        return told + self._before + self._shown

    @property
    def _key(self) -> tuple[int, int]:
        """What the window holds: the samples that have left it, and where it ends."""
        return self._offset, self.length

    def _end_times(self, tokens: Tokens) -> Sequence[float]:
        encoded = run_alone(self._encoded())
        if not tokens or not encoded.heard:
            return [0.0] * len(tokens)
        model = self._model
        prompt = self._prompt()
        decoder = SteppedDecoder(model.model, prompt, heard=encoded.heard)
        memory = decoder.memory()
        memory.append(encoded.frames)
        weights = decoder.spoken(tokens[: model.positions - len(prompt)], memory)
        frames = monotonic_frames(mean_attention(weights, model.alignment_heads).cpu().numpy())
        frames += frames[-1:] * (len(tokens) - len(frames))
        seconds = self._audio.size / SAMPLE_RATE / encoded.heard
        return [(frame + 1) * seconds for frame in frames]

    def _begins_word(self, tokens: Tokens, place: int) -> bool:
        before, after = self.text(tokens[:place]), self.text(tokens[: place + 1])
        return after[len(before) :].startswith(" ")
