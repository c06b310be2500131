"""A loaded Hugging Face model, and one utterance inside of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from simulst.audio.units import SAMPLE_RATE
from simulst.background import Background
from simulst.calls import Batched, Steps, run_alone
from simulst.hypotheses import Beam, Found, Hypothesis, Tokens
from simulst.models.base import depends_on_rows
from simulst.models.huggingface.architectures import Architecture, Encoded
from simulst.models.huggingface.decoder import SteppedDecoder, every_head, sizes_of
from simulst.models.huggingface.wait_token import lags_of, without_marks
from simulst.models.whisper.prompts import PREVIOUS_TOKENS, PROMPT_TOKENS, known_tokens
from simulst.models.window import WindowedSession, warn_of_full_context
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.context import HeadPairs
from simulst.policy.stop import Stopping
from simulst.search import (
    BWBS,
    IBWBS,
    TOKENS_PER_SECOND,
    JointBeamSearch,
    JointOptions,
    SearchOptions,
    draft_after,
)
from simulst.search.beam import JointSearch, joint_beam_search, rows_of
from simulst.search.blockwise import KeptSearch
from simulst.search.loops import without_loops
from simulst.search.terms import Terms
from simulst.session import Traits, share_search

GIVES = frozenset({Need.STEPS, Need.DISTRIBUTION, Need.ATTENTION, Need.END_TIMES, Need.LEAVING, Need.DRAFT})
MOST_SECONDS = 30.0  # of windows in a batch of the encoder; more take more time each on a CPU, whose caches are small


class HuggingFace:
    """An encoder-decoder model. loading.py makes it from files."""

    sample_rate = SAMPLE_RATE

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        for name in ("language_pairs", "spoken_languages"):  # Whisper has them
            if hasattr(architecture, name):
                setattr(self, name, getattr(architecture, name))
        architecture.prepare()

    def session(self, opening: Opening) -> HuggingFaceSession:
        """A new utterance. Raises SimulstError: a language that the model does not have."""
        self.architecture.prompt(*opening.languages)
        return (self.architecture.session_class or HuggingFaceSession)(self.architecture, opening)


class HuggingFaceSession(WindowedSession):
    """The window's audio is encoded again at each step, the committed text is the forced beginning of the search."""

    _gives = GIVES | {Need.INCREMENTAL, Need.KEPT_BEAM}
    _beam = 5  # of the usual search
    _shown_heads: HeadPairs = ()  # those that the last STOP looks at, if the decoder must know
    _between: Tokens = ()  # with which a window's text begins that follows another's

    def __init__(self, architecture: Architecture, opening: Opening) -> None:
        shown = architecture.shows_previous and opening.history
        before = architecture.tokens(opening.history, opening.target) if shown else ()
        super().__init__(opening, architecture.window_seconds, before)
        self._model = architecture
        layers, heads = sizes_of(architecture.model)
        usual = JointBeamSearch(beam=self._beam, ctc_weight=0.0)
        self.traits = Traits(self._gives, usual, layers=layers, heads=heads, wait=architecture.wait)
        self._wait = architecture.wait.token if architecture.wait else None
        self._kept = KeptSearch()
        self._final = False
        self._last: Tokens = ()  # what the last step found
        self._draft: Tokens = ()  # what this one takes of it
        self._terms: Terms | None = None
        # The last search, and over what and how it was.
        self._open: tuple[Encoded, tuple[JointOptions, Tokens], JointSearch] | None = None
        self._prompted = self._known_tokens()

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        super().extend(samples, final)
        self._final = final

    def _leave(self, tokens: int, samples: int, committed: Tokens) -> None:
        self._kept.slide(self._in_window(committed), 0, tokens)
        super()._leave(tokens, samples, committed)

    def text(self, tokens: Tokens) -> str:
        return self._model.text(tokens)

    def spell(self, text: str) -> Tokens:
        return self._model.tokens(text, self.opening.target)

    def _encoding(self) -> Batched:
        """Windows that the encoder reads as of one length share a batch, so that none is padded for others."""
        architecture, samples = self._model, self._audio
        options, size = architecture.options, architecture.padded(samples.size)
        alike = None if depends_on_rows(options.dtype, options.device) else size
        most = max(1, round(MOST_SECONDS * SAMPLE_RATE / max(1, size)))
        return Batched(architecture.encode_together, samples, size, alike, most)

    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        yield from self._encode()  # also before a search that is shared: each stream pays for its own encoding
        self._draft = draft_after(committed, options, self._last)
        key = self.window_key, self._draft
        found = yield from share_search(self.meter, key, self._found, committed, options, stop)
        self._last = found.best
        return found

    def _found(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        prefix = self._in_window(committed) or (self._between if self._evicted else ())
        lag = self._evicted[:1] if self._evicted[:1] in lags_of(self._model.wait) else ()  # each text began with it
        if len(lag + prefix) >= self._model.positions - len(self._prompt()):
            warn_of_full_context(self._model.path, self._model.positions)
            return Found([Hypothesis(committed)])
        found = yield from self._search_window(lag + prefix, options, stop)
        return replace(found, beam=[replace(h, tokens=self._evicted + h.tokens[len(lag) :]) for h in found.beam])

    def _search_window(self, prefix: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        encoded = self._encoded
        if not encoded.heard:
            return Found([Hypothesis(prefix)])
        if isinstance(options, IBWBS | BWBS):
            search = self._search_over(encoded, options)
            return (yield from self._kept.step(search, options, prefix, stop, self._final))

        def found(used: JointBeamSearch) -> Steps[Beam]:
            return joint_beam_search(self._search_over(encoded, used), prefix, stop, draft=self._draft)

        assert isinstance(options, JointBeamSearch)
        return Found((yield from without_loops(options, found, self.text, len(prefix), self._wait)))

    def _search_over(self, encoded: Encoded, options: JointOptions) -> JointSearch:
        """A search whose decoder knows what it has read of these frames before."""
        prompt = self._prompt()
        if self._open is None or self._open[0] is not encoded or self._open[1] != (options, prompt):
            model = self._model
            decoder = self._decoder(encoded, self._shown_heads)
            bounded = replace(options, max_length_ratio=self._most_per_frame(options, encoded.heard, len(prompt)))
            if self._terms is None or self._terms.bonus != options.terms_bonus:
                self._terms = model.terms(self.opening.background, options, self.opening.target)
            search = JointSearch(
                decoder,
                bounded,
                model.eos,
                model.eos,
                terms=self._terms,
                alignment_heads=model.alignment_heads,
                wait=self._wait,
                end_times=self.end_times,
            )
            search.append(encoded.frames)
            self._open = (encoded, (options, prompt), search)
        return self._open[2]

    def _decoder(self, encoded: Encoded, heads: HeadPairs) -> SteppedDecoder:
        """A decoder of these frames, which has read nothing. It shows at least these heads."""
        model = self._model
        never_first = () if self._evicted or self._previous() else model.never_first
        project = model.projection(encoded)
        return SteppedDecoder(model.model, self._prompt(), model.never, never_first, encoded.heard, project)

    def _most_per_frame(self, options: JointOptions, frames: int, prompt: int) -> float:
        """The most tokens for each encoder frame, of which some last 160 ms: so by default, the audio's length counts.

        prompt: tokens of the prompt, which take positions.
        """
        ratio = options.max_length_ratio
        spoken = math.ceil(TOKENS_PER_SECOND * self._audio.size / SAMPLE_RATE)
        most = spoken if ratio is None else int(ratio * frames)
        return (max(1, min(most, self._model.positions - prompt)) + 0.5) / frames  # rounded down by the search

    def _prompt(self) -> Tokens:
        return self._model.prompt(*self.opening.languages, self._previous())

    def _previous(self) -> Tokens:
        """What the prompt shows: what is known of the recording, and the text before the utterance and the window."""
        if not self._model.shows_previous:
            return ()
        shown = min(PREVIOUS_TOKENS, self._model.positions // 4)
        return self._prompted + self._past[-shown:]

    @property
    def _past(self) -> Tokens:
        """The text before the window that may be shown, without the tokens of waiting: training shows none."""
        return without_marks(self._before + self._shown, self._model.wait)

    def tell(self, background: Background) -> None:
        super().tell(background)
        self._terms = self._open = None
        self._prompted = self._known_tokens()

    def _known_tokens(self) -> Tokens:
        if not self._model.shows_previous:
            return ()
        most = min(PROMPT_TOKENS - PREVIOUS_TOKENS, self._model.positions // 4)
        return known_tokens(self._model.path, self.opening.background, self.spell, most)

    def _end_times(self, tokens: Tokens) -> Sequence[float]:
        run_alone(self._encode())
        encoded = self._encoded
        if not tokens or not encoded.heard:
            return [0.0] * len(tokens)
        weights = self._attention(tokens[: self._model.positions - len(self._prompt())], encoded)
        frames = monotonic_frames(weights.cpu().numpy())
        frames += frames[-1:] * (len(tokens) - len(frames))
        seconds = self._audio.size / SAMPLE_RATE / encoded.heard
        return [(frame + 1) * seconds for frame in frames]

    def _attention(self, tokens: Tokens, encoded: Encoded) -> Tensor:
        """Source attention at each token, when it is written: (tokens, T), the mean of the heads that align."""
        named = self._model.alignment_heads
        decoder = self._decoder(encoded, named or every_head(self._model.model))
        memory = decoder.memory()
        memory.append(encoded.frames)
        return rows_of(decoder, decoder.spoken(tokens, memory), named).mean(0)

    def _begins_word(self, tokens: Tokens, place: int) -> bool:
        before, after = self.text(tokens[:place]), self.text(tokens[: place + 1])
        return after[len(before) :].startswith(" ")


def monotonic_frames(weights: np.ndarray) -> list[int]:
    """The frame of each token, never before that of the token before it, so that the sum of log weights is greatest.

    weights: (tokens, frames), positive.
    """
    scores = np.log(np.maximum(weights, 1e-10))
    best = np.zeros(scores.shape[1])
    before = []  # token → for each frame, the best frame up to it of the token before
    for row in scores:
        reached = np.maximum.accumulate(best)
        is_new = np.concatenate([[True], reached[1:] > reached[:-1]])
        before.append(np.maximum.accumulate(np.where(is_new, np.arange(len(best)), 0)))
        best = reached + row
    frames = []
    frame = int(best.argmax()) if len(scores) else 0
    for place in reversed(range(len(scores))):
        frames.append(frame)
        frame = int(before[place][frame])
    return frames[::-1]
