"""A recogniser that hears nothing: it reads the words of a transcript at the times at which they were spoken.

So a translator and its policy can be measured alone. Only the audio's length counts: silence will do.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from simulst.audio.name import file_of, plain_name
from simulst.audio.read import seconds_of
from simulst.audio.units import SAMPLE_RATE
from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.files.table import read_ctm, read_table
from simulst.hypotheses import Found, Hypothesis, Tokens
from simulst.languages import unit_of
from simulst.measure.segmentation import read_segmentation
from simulst.models.cascade.recognisers import Recogniser
from simulst.models.cascade.settings import beside
from simulst.opening import Opening
from simulst.policy.commit import All, Hold
from simulst.policy.read import Chunk
from simulst.session import Session, Traits
from simulst.words import split

AFTER = 0.1  # seconds by which a word may end after its recording: times are rounded
WRONG, LEFT_OUT = 0.6, 0.8  # of the errors, so many give another word, or no word; the others give a word too many


@dataclass(frozen=True)
class Transcript(Recogniser):
    """Options of a transcript that is read at its times.

    transcript: relative to the cascade's file: a data directory, with text.<language> or, of whole recordings,
        talks.yaml and talks.<language>; the words of a segment share its time by their lengths. Or a CTM file, whose
        lines are `<recording> <channel> <first second> <seconds> <word>`.
    ms: new words are read every so many ms of audio: those that have ended.
    unstable: so many of the last words are read, but not committed, until the audio ends.
    errors: the share of words that are wrong: 60 % are another word of the text, 20 % are left out, 20 % come twice.
        Which these are follows from the utterance's name and text, so they are the same everywhere.
    """

    transcript: str
    ms: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 200.0
    unstable: Annotated[int, Field(ge=0)] = 0
    errors: Annotated[float, Field(ge=0, le=1)] = 0.0

    def load(self, path: Path, cores: int) -> TranscriptModel:
        return TranscriptModel(self, Path(beside(path, self.transcript)))

    def policies(self, path: Path) -> Decoding:
        return Decoding(Chunk(self.ms), Hold(self.unstable) if self.unstable else All())

    def files(self, path: Path) -> tuple[Path, ...]:
        """The texts of all languages, and their times."""
        place = Path(beside(path, self.transcript))
        if not place.is_dir():
            return (place,)
        named = ("talks.*",) if (place / "talks.yaml").is_file() else ("segments", "wav.scp", "text.*")
        return tuple(file for name in named for file in sorted(place.glob(name)))


class Word(NamedTuple):
    """end: the seconds after which it has been spoken. text: with the space that belongs to it."""

    end: float
    text: str


class TranscriptModel:
    """options: see `Transcript`. path: of the transcript."""

    sample_rate = SAMPLE_RATE

    def __init__(self, options: Transcript, path: Path) -> None:
        if not path.exists():
            raise SimulstError(f"{path}: no such transcript; give a data directory or a CTM file.")
        self.options, self.path = options, path
        self._read: dict[str, dict[str, list[Word]]] = {}  # by language

    def session(self, opening: Opening) -> TranscriptSession:
        """Raises SimulstError: there is no text in this language, or it has no times."""
        language = opening.source
        if language not in self._read:
            self._read[language] = read_words(self.path, language)
        return TranscriptSession(opening, self)

    def words_of(self, opening: Opening) -> list[Word]:
        """The words of an utterance, with errors. Raises SimulstError: they are not known."""
        known = self._read[opening.source]
        if not opening.names:
            raise SimulstError(
                f"{self.path}: a transcript must be told which recording is heard, from its beginning on; take simulst "
                "evaluate, sweep or translate, and no 'segment'."
            )
        name = next((name for name in opening.names if name in known), None)
        if name is None:
            raise SimulstError(
                f"{self.path}: has no words of '{opening.names[0]}', but of {len(known)} others, such as "
                f"'{next(iter(known))}'; give the transcript of this recording."
            )
        return list(with_errors(known[name], self.options.errors, name))


class TranscriptSession(Session):
    """A token is the number of a word."""

    traits = Traits(any_length=True)

    def __init__(self, opening: Opening, model: TranscriptModel) -> None:
        super().__init__(opening)
        self._model = model
        self._words: list[Word] | None = None  # not known before there is audio: a stream may only be tried
        self._length = 0
        self._heard = 0  # words

    @property
    def length(self) -> int:
        return self._length

    @property
    def available(self) -> int:
        return self._heard

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        self._length += samples.size
        if self._words is None:
            self._words = self._model.words_of(self.opening)
        words, seconds = self._words, self._length / SAMPLE_RATE
        while self._heard < len(words) and words[self._heard].end <= seconds + AFTER * final:
            self._heard += 1
        if final and self._heard < len(words):
            raise SimulstError(
                f"{self._model.path}: the words of '{self.opening.names[0]}' go on to {words[-1].end:.2f} s, but its "
                f"audio ends at {seconds:.2f} s; give the transcript of this recording."
            )

    def search(self, committed: Tokens, options: Any, stop: Any) -> Found:
        return Found([Hypothesis(tuple(range(self._heard)))])

    def text(self, tokens: Tokens) -> str:
        return "".join(self._words[token].text for token in tokens) if self._words else ""


def with_errors(words: Sequence[Word], rate: float, seed: str) -> Iterable[Word]:
    """The words, of which a share is another one, left out, or there twice. seed: what they depend on."""
    draw = random.Random(seed)  # of a text, it is the same on all machines
    for word in words:
        wrong, kind, other = draw.random() < rate, draw.random(), draw.choice(words)
        if not wrong:
            yield word
        elif kind < WRONG:
            yield Word(word.end, other.text)
        elif kind >= LEFT_OUT:
            yield from (word, word)


# ---- reading ----


def read_words(path: Path, language: str) -> dict[str, list[Word]]:
    """Utterance or recording → its words in the order of the text; their ends never fall.

    Raises SimulstError: a broken or missing file.
    """
    unit = unit_of(language)
    if path.is_file():
        return _of_ctm(path, unit)
    found: dict[str, list[Word]] = {}
    if (path / "talks.yaml").is_file():
        for sentence in read_segmentation(path / "talks.yaml", path / f"talks.{language}"):
            end = sentence.offset + sentence.duration
            found.setdefault(sentence.recording, []).extend(spread(sentence.text, sentence.offset, end, unit))
        return in_order(found)
    seconds = _seconds(path)
    texts = next((file for name in ("", "tc.") if (file := path / f"text.{name}{language}").is_file()), None)
    if texts is None:
        raise SimulstError(f"{path}: no text in language '{language}'; add text.{language}.")
    for name, text in read_table(texts, allow_empty=True).items():
        if name not in seconds:
            raise SimulstError(f"{texts}: '{name}' has no times in {path}; add it to segments or wav.scp.")
        found[name] = list(spread(text, 0.0, seconds[name], unit))
    return found


def spread(text: str, begin: float, end: float, unit: str) -> Iterable[Word]:
    """The words (characters) of a text that is spoken between two times (seconds): each has time by its length."""
    words = split(text, unit)
    whole, so_far = sum(len(word.strip()) for word in words), 0
    for word in words:
        so_far += len(word.strip())
        yield Word(begin + (end - begin) * so_far / whole, word if unit == "char" else f"{word.strip()} ")


def in_order(texts: Mapping[str, Sequence[Word]]) -> dict[str, list[Word]]:
    """The same words, of which none ends before the one in front of it, though segments may overlap."""
    ends = {name: itertools.accumulate((word.end for word in words), max) for name, words in texts.items()}
    return {
        name: [Word(*pair) for pair in zip(ends[name], (word.text for word in words), strict=True)]
        for name, words in texts.items()
    }


def _seconds(path: Path) -> dict[str, float]:
    """Utterance → its duration. Raises SimulstError: there are no times."""
    recordings = {name: Path(file) for name, file in read_table(path / "wav.scp").items()}
    places = {name: file_of(file if file.is_absolute() else path / file) for name, file in recordings.items()}
    if not (path / "segments").is_file():
        return {name: seconds_of(place) for name, place in places.items()}
    found = {}
    for name, value in read_table(path / "segments").items():
        try:
            recording, begin, end = value.split()
            found[name] = (float(end) if float(end) >= 0 else seconds_of(places[recording])) - float(begin)
        except (ValueError, KeyError) as error:
            raise SimulstError(f"{path / 'segments'}: '{name}' has no times; prepare the data again.") from error
    return found


def _of_ctm(path: Path, unit: str) -> dict[str, list[Word]]:
    found: dict[str, list[Word]] = {}
    for name, begin, end, word in read_ctm(path):
        found.setdefault(plain_name(name), []).extend(spread(word, begin, end, unit))
    if not found:
        raise SimulstError(f"{path}: has no words; give a CTM file or a data directory.")
    return in_order(found)
