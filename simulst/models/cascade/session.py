"""One utterance inside a cascade.

The source grows sentence by sentence. Once the recogniser has committed a sentence and begun the next one, all of its
translation is committed. Then the sentence leaves with its tokens, as audio leaves the window of other models. So only
new sentences are translated, and the committed tokens that have not left are the beginning of the first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from simulst.background import Background
from simulst.calls import Steps
from simulst.config import Decoding
from simulst.hypotheses import Beam, Found, Hypothesis, Tokens
from simulst.languages import unit_of
from simulst.models.cascade.settings import Settings
from simulst.models.cascade.translators import Opener, Past
from simulst.models.registry import load_model
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.stop import Stopping
from simulst.search import SearchOptions
from simulst.session import Model, Session, Window, share_search
from simulst.stream import Stream
from simulst.words import split

END = re.compile(r"""[.!?…।؟۔]+["'”’»)\]]*\s+|[。！？]+[」』）]*""")
"""Where sentences end in a text that grows."""


class Cascade:
    """A recogniser under `decoding`, and what opens the translation of its text."""

    def __init__(self, recogniser: Model, decoding: Decoding, translate: Opener, settings: Settings) -> None:
        self.sample_rate = recogniser.sample_rate
        self._recogniser, self._decoding = recogniser, decoding
        self._translate, self._settings = translate, settings

    def session(self, opening: Opening) -> CascadeSession:
        """A new utterance. Raises SimulstError: a language that one of the two does not have.

        The recogniser is told what is known in the source language, and restarts; the translator is told everything.
        """
        source = opening.source
        known, part = opening.background.spoken, opening.meter.part("recogniser")
        restarts = opening.restarts or self._decoding.segment.restart
        heard = Opening(source, source, part, known, restarts=restarts, names=opening.names)
        session = self._recogniser.session(heard)
        stream = Stream(session, self._decoding, unit_of(source), load_model=load_model)
        return CascadeSession(opening, stream, self._translate, self._settings)

    @property
    def spoken_languages(self) -> Callable[[np.ndarray], Mapping[str, float]]:
        """As the recogniser hears them."""
        return self._recogniser.spoken_languages  # type: ignore[attr-defined]


class CascadeSession(Session, Window):
    """stream: the recogniser's. translate: opens the translation."""

    def __init__(self, opening: Opening, stream: Stream, translate: Opener, settings: Settings) -> None:
        super().__init__(opening)
        self._stream, self._settings = stream, settings
        self._translate, self._translation = translate, translate(opening)
        self._unit = stream.unit  # of the source language
        heard = stream.session.traits
        self.traits = replace(self._translation.traits, sample_rate=heard.sample_rate, any_length=heard.any_length)
        self._length = 0
        self._final = False
        self._begins: Tokens | None = None  # what STOP has each sentence begin with
        self._source: list[str] = []
        self._heard = ""  # what the recogniser has written of later ones
        self._past: Past = ()  # the last sentences that have left
        # Characters and tokens of the sentences that ended in the last search, and what is past without them.
        self._ended: tuple[int, int, Past] = (0, 0, ())
        self._words = 0  # of the sentence that is translated: those that the recogniser has committed

    @property
    def length(self) -> int:
        return self._length

    @property
    def available(self) -> int:
        """The length at which the recogniser has decoded: until it does so again, the text is the same."""
        return round(self._stream.reads[-1] * self.traits.sample_rate / 1000) if self._stream.reads else 0

    def extend(self, samples: np.ndarray, final: bool = False) -> Steps[None]:
        self._length += samples.size
        self._final = final
        words = yield from self._stream.push_steps(samples, final)
        self._heard += "".join(word.text for word in words)
        space = " " if self._unit == "word" and not self._source else ""
        self._source += [(space if not number else "") + word.text for number, word in enumerate(words)]

    def text(self, tokens: Tokens) -> str:
        return self._translation.text(tokens)

    @property
    def source_words(self) -> float:
        return self._words

    @property
    def source_text(self) -> list[str]:
        return self._source

    def tell(self, background: Background) -> None:
        super().tell(background)
        self._stream.tell(self.opening.background.spoken)
        self._translation = self._translate(self.opening)

    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Found]:
        """A search of several translations, each of which is shared by itself. So the whole has no `key`."""
        ended, rest = split_sentences(self._heard, self._settings.most_words, self._unit)
        before, past = self._evicted, self._past
        if self._begins is None:
            self._begins = committed
        prefix = committed[len(self._evicted) :] or self._begins
        for sentence in ended:
            [best, *_] = yield from self._translated(sentence, prefix, options, past)
            before += best.tokens + (self._translation.between if best.tokens else ())
            prefix = self._begins
            past = self._with(past, sentence, best.tokens)
        self._ended = sum(map(len, ended)), len(before), past
        self._words = len(split(rest.strip(), self._unit))
        # A STOP that listens may decide otherwise about the same text, once it has heard more, as may one that asks
        # which words are final.
        needs = frozenset() if stop is None else stop.options.needs
        known: tuple[Any, ...] = (self._length, committed) if Need.AUDIO in needs else ()
        known += (self._words,) if Need.SOURCE_WORDS in needs else ()
        beam = yield from self._translated(rest + self._unstable(rest), prefix, options, past, stop, known)
        return Found([Hypothesis(before + h.tokens, h.score) for h in beam])

    def _translated(
        self,
        sentence: str,
        prefix: Tokens,
        options: SearchOptions,
        past: Past,
        stop: Stopping | None = None,
        known: tuple[Any, ...] = (),
    ) -> Steps[Beam]:
        """known: what `stop` decides by, besides these."""
        sentence = sentence.strip()
        if not sentence:
            return [Hypothesis(prefix)]

        def search(prefix: Tokens, options: SearchOptions, stop: Stopping | None) -> Steps[Beam]:
            return self._translation.search(sentence, prefix, options, stop, past)

        key = sentence, past, known, self.opening.background
        return (yield from share_search(self.meter, key, search, prefix, options, stop))

    def _with(self, past: Past, sentence: str, tokens: Tokens) -> Past:
        """The last sentences, with one more."""
        history = self._translation.history
        return (*past, (sentence.strip(), self.text(tokens).strip()))[-history:] if history else ()

    def _unstable(self, rest: str) -> str:
        """What follows in the recogniser's best hypothesis, up to the end of the sentence."""
        if self._final or not self._settings.unstable:
            return ""
        text = rest + self._stream.unstable_text
        ended, last = split_sentences(text, self._settings.most_words, self._unit)
        return (ended[0] if ended else last)[len(rest) :]

    # ---- what leaves: sentences, not audio ----

    def leaving(self, best: Tokens) -> Tokens | None:
        return best[: self._ended[1]] if self._ended[0] else None

    def slide(self, committed: Tokens) -> None:
        characters, tokens, self._past = self._ended
        self._heard = self._heard[characters:]
        self._evicted = committed[:tokens]
        self._ended = 0, 0, self._past


def split_sentences(text: str, most_words: int, unit: str) -> tuple[list[str], str]:
    """The sentences that have ended, and the rest; joined, they are the text.

    A sentence has ended once something follows its full stop that does not go on in lower case ("e.g. this" goes on),
    or once it would have more words (characters) than `most_words`.

    unit: of the text's language, "word" or "char".
    """
    ended = []
    while end := _first_end(text, most_words, unit):
        ended.append(text[:end])
        text = text[end:]
    return ended, text


def _first_end(text: str, most_words: int, unit: str) -> int:
    end = next((m.end() for m in END.finditer(text) if m.end() < len(text) and not text[m.end()].islower()), 0)
    word = r"\S+\s+" if unit == "word" else r"\S\s*"
    words = [match.end() for match in re.finditer(word, text[: end or len(text)])]
    return words[most_words - 1] if len(words) >= most_words and words[most_words - 1] < len(text) else end
