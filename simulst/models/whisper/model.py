"""A loaded CTranslate2 Whisper, and one utterance inside of it."""

from __future__ import annotations

import math

import numpy as np

from simulst.audio.units import FRAME, SAMPLE_RATE
from simulst.background import Background
from simulst.calls import Alone, Batched, Steps, ask, run_alone
from simulst.errors import warn_once
from simulst.hypotheses import Beam, Found, Hypothesis, Tokens
from simulst.languages import code_of
from simulst.models.whisper.network import STATE_SECONDS, WINDOW_SECONDS, Aligned, Generate, Network
from simulst.models.whisper.prompts import PREVIOUS_TOKENS, PROMPT_TOKENS, known_tokens, previous_tokens
from simulst.models.window import WindowedSession
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.context import TokensView
from simulst.policy.stop import Stopping, end_of
from simulst.search import BeamSearch, SearchOptions
from simulst.search.loops import without_loops
from simulst.session import Traits, share_search

LEAST_TOKENS = 4  # of a text whose language is told
TRANSLATED = 0.2  # log p per token by which a translation is more probable under its own prompt than under the other
HEARD_SECONDS = 3.0  # after which the language of a recording is told
# So many times more probable must a language be than the one that was named. Of 44 Spanish, French, Italian and Russian
# recordings (3 s, Whisper base), 54 was the most; with French named for the 33 others, 266 was the least.
MORE_PROBABLE = 100.0


class Whisper(Network):
    """A CTranslate2 Whisper folder: model.bin, vocabulary.json, tokenizer.json, config.json.

    path: the folder.
    options: the options of the family.
    cores: how many processors to use. 0: all that are available.

    Raises SimulstError: a missing or broken file.
    """

    sample_rate = SAMPLE_RATE

    def session(self, opening: Opening) -> WhisperSession:
        """Open a new utterance. Its target is the source language (transcription) or en (translation).

        Raises SimulstError: a language or direction that the model does not have.
        """
        source, target = opening.languages
        start, transcription, others = self._start_tokens(source, target), self._start_tokens(source, source), None
        if self.options.check_language and start[2:] != transcription[2:]:
            others = (transcription, (start[0], self.special("<|en|>"), *start[2:]))
        return WhisperSession(self, opening, start, others)

    def spoken_languages(self, samples: np.ndarray) -> dict[str, float]:
        """How probable each language is in the first 30 s of audio, (n,) float32; empty: it knows English alone."""
        window = samples[: WINDOW_SECONDS * SAMPLE_RATE]
        return self.tell(self.encode(window), window.size / SAMPLE_RATE)

    def _start_tokens(self, source: str, target: str) -> Tokens:
        return self._languages.prompt(source, target, self.special)


class WhisperSession(WindowedSession):
    """One utterance: the audio in the window, and the tokens that belong to it.

    start: the tokens that name the languages and the task.
    others: if the task is translation, those of transcription, and those of translation if English were spoken.
    """

    traits = Traits(frozenset({Need.LIBRARY_SEARCH, Need.ATTENTION, Need.END_TIMES, Need.LEAVING}))

    def __init__(self, model: Network, opening: Opening, start: Tokens, others: tuple[Tokens, Tokens] | None) -> None:
        super().__init__(opening, WINDOW_SECONDS, model.tokens(opening.history))
        self._model, self._begin, self._others = model, start, others
        self._alignments: dict[tuple[Tokens, Tokens], Aligned] = {}  # of the window's states: by prompt and text
        self._known = self._known_tokens()

    def tell(self, background: Background) -> None:
        super().tell(background)
        self._known = self._known_tokens()

    def _known_tokens(self) -> Tokens:
        most = PROMPT_TOKENS - PREVIOUS_TOKENS
        return known_tokens(self._model.path, self.opening.background, self.spell, most)

    def text(self, tokens: Tokens) -> str:
        return self._model.text(tokens)

    def spell(self, text: str) -> Tokens:
        return self._model.tokens(text)

    def _encoding(self) -> Batched:
        return self._model.encoding(self._audio)

    def _encode(self) -> Steps[None]:
        before = self._states
        yield from super()._encode()
        if self._states is not before:
            self._alignments = {}

    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        yield from self._encode()  # also before a search that is shared: each stream pays for its own encoding
        return (yield from share_search(self.meter, self.window_key, self._found, committed, options, stop))

    def _found(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        """CTranslate2's search can't be ended by STOP, so its hypotheses are cut where STOP would have ended it."""
        assert isinstance(options, BeamSearch)
        yield from self._check_source()
        prefix = self._in_window(committed)
        most = math.ceil(options.max_tokens_per_second * self._audio.size / SAMPLE_RATE) + 5 - len(prefix)
        most = max(1, most)
        enough = most if stop is None else min(stop.options.enough_tokens or most, most)
        beam = yield from self._generated(prefix, options, enough)
        end = yield from self._stopped_at(stop, beam, len(prefix))
        if stop and beam and enough < most and end is None and len(beam[0].tokens) == len(prefix) + enough:
            beam = yield from self._generated(prefix, options, most)
            end = yield from self._stopped_at(stop, beam, len(prefix))
        return Found([Hypothesis(self._evicted + h.tokens[:end], h.score) for h in beam])

    def _check_source(self) -> Steps[None]:
        """Warn if another language is spoken. It is looked at once in a stream, and is not part of its computation."""
        source, seconds = self.opening.source, self._audio.size / SAMPLE_RATE
        if seconds < HEARD_SECONDS or not self.meter.first("language"):
            return
        with self.meter.uncounted():
            call = Alone(self._model.tell, (self._encoded, seconds), self._model.turn)
            found = yield from self.meter.shared_call(("language", self.audio_key), call)
        heard = max(found, key=found.__getitem__, default="")
        if found and found[heard] > MORE_PROBABLE * found.get(code_of(source), 1.0):
            self.meter.sounds_like = heard
            warn_once(
                f"{self._model.path}: a recording sounds like '{heard}', not '{source}'; check the source language "
                "(--source-lang)."
            )

    def _stopped_at(self, stop: Stopping | None, beam: Beam, given: int) -> Steps[int | None]:
        """Of how many tokens the best hypothesis is where STOP ends its search; None where it does not.

        given: how many of them were committed before.
        """
        if stop is None or not beam:
            return None
        best, begins, needs = beam[0].tokens, [0], stop.options.needs
        # Text without new tokens is not aligned: that takes time, and it may fill all of the decoder's positions.
        if best[given:] and needs & {Need.ATTENTION, Need.END_TIMES}:
            begins = (yield from self._aligned(self._begin, best)).begins
        last, offset = self._audio.size // FRAME // 2 - 1, self._offset / SAMPLE_RATE
        left = [*(last - begin for begin in begins[given:] if best[given:]), math.inf]
        ends = [offset + begin * STATE_SECONDS for begin in begins[given + 1 :]]
        shown = left if Need.ATTENTION in needs else None, ends if Need.END_TIMES in needs else None
        kept = end_of(stop, best[given:], lambda tokens: TokensView(tokens, *shown))
        return None if kept is None else given + kept

    def _generated(self, prefix: Tokens, options: BeamSearch, max_new: int) -> Steps[Beam]:
        """A library's search is shared by all STOPs."""
        room = self._model.room(self._begin, prefix, max_new)
        before = (self._before + self._shown)[-PREVIOUS_TOKENS:]
        previous = previous_tokens(self._known, before, room)
        key = ("generate", self.window_key, prefix, options, max_new)
        return (yield from self.meter.shared_steps(key, lambda: self._search(previous, prefix, options, max_new)))

    def _search(self, previous: Tokens, prefix: Tokens, options: BeamSearch, max_new: int) -> Steps[Beam]:
        def found(start: Tokens) -> Steps[Beam]:
            def search(used: BeamSearch) -> Steps[Beam]:
                return ask(Generate(self._model, self._encoded, start, previous, prefix, used, max_new).call)

            return without_loops(options, search, self.text, len(prefix))

        def translations(beam: Beam) -> Steps[Beam]:
            kept = []
            for hypothesis in beam:
                if len(hypothesis.tokens) > len(prefix) and (yield from self._is_translation(hypothesis.tokens)):
                    kept.append(hypothesis)
            return kept

        beam = yield from found(self._begin)
        if self._others is None or not beam or len(beam[0].tokens) == len(prefix):
            return beam
        if (yield from self._is_translation(beam[0].tokens)):
            return beam
        if not (yield from self._is_translation(prefix)):
            return beam  # what is committed is in the language spoken, and so would be what follows
        others = yield from translations(beam[1:])
        if not others:
            others = yield from translations((yield from found(self._others[1])))
        return others or beam

    def _is_translation(self, tokens: Tokens) -> Steps[bool]:
        """Whether a text is not in the language spoken: then it is less probable under the prompt for transcription."""
        assert self._others is not None
        if len(tokens) < LEAST_TOKENS:
            return True
        translated = yield from self._aligned(self._begin, tokens)
        transcribed = yield from self._aligned(self._others[0], tokens)
        return translated.log_p - transcribed.log_p >= TRANSLATED * len(tokens)

    def _aligned(self, start: Tokens, tokens: Tokens) -> Steps[Aligned]:
        if (start, tokens) not in self._alignments:
            about = self._encoded, start, tokens, self._audio.size // FRAME
            call = Alone(self._model.align, about, self._model.turn)
            key = ("align", self.audio_key, start, tokens)
            self._alignments[start, tokens] = yield from self.meter.shared_call(key, call)
        return self._alignments[start, tokens]

    def _end_times(self, tokens: Tokens) -> list[float]:
        """A token has been spoken when the next one begins."""
        run_alone(self._encode())
        begins = run_alone(self._aligned(self._begin, tokens)).begins
        return [frame * STATE_SECONDS for frame in begins[1:]]

    def _begins_word(self, tokens: Tokens, place: int) -> bool:
        return self.text((tokens[place],)).startswith(" ")
