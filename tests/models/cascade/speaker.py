"""A recogniser that hears a word of a given text every 200 ms, and is not sure of the last ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml
from fake import pushed

from simulst.calls import run_alone
from simulst.config import parse_decoding
from simulst.hypotheses import Beam, Found, Hypothesis, Tokens
from simulst.models.cascade.translators import Translation
from simulst.opening import Opening
from simulst.session import Session
from simulst.streams import open_stream

RATE = 16000
STEP = RATE // 5
CHATS = ("llama", "qwen3")  # kinds of language models that chat


class Speaker:
    """say: the text. unsure: so many of the last words are heard wrongly at first. In Chinese a word is a character."""

    sample_rate = RATE

    def __init__(self, say: str, unsure: int = 1) -> None:
        self.words = list(say) if is_chinese(say) else [f" {word}" for word in say.split()]
        self.unsure = unsure

    def session(self, opening: Opening) -> SpeakerSession:
        assert opening.source == opening.target, "it recognises"
        return SpeakerSession(self, opening)


class SpeakerSession(Session):
    def __init__(self, speaker: Speaker, opening: Opening) -> None:
        super().__init__(opening)
        self.speaker, self.samples, self.final = speaker, 0, False

    @property
    def length(self) -> int:
        return self.samples

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        self.samples += samples.size
        self.final = final

    def search(self, committed: Tokens, options: Any, stop: Any) -> Found:
        heard = min(self.samples // STEP, len(self.speaker.words))
        sure = heard if self.final else max(0, heard - self.speaker.unsure)
        words = tuple(range(sure)) + tuple(range(1000 * heard + sure, 1000 * heard + heard))
        return Found([Hypothesis(committed + words[len(committed) :])])

    def text(self, tokens: Tokens) -> str:
        return "".join(self.speaker.words[t] if t < 1000 else " um" for t in tokens)


def searched(translation: Translation, *about: Any) -> Beam:
    """What the search of a translation finds. about: the arguments of `Translation.search`."""
    return run_alone(translation.search(*about))


def is_chinese(text: str) -> bool:
    return any("\u4e00" <= character <= "\u9fff" for character in text)


def audio(text: str) -> np.ndarray:
    return np.zeros(STEP * len(Speaker(text).words), np.float32)


def write(folder: Path, translator: dict[str, Any], say: str, **settings: Any) -> Path:
    """A cascade's file. JSON is YAML. settings: also `unsure` and `every` (ms), of the speaker."""
    every = settings.pop("every", 200)
    recogniser = {
        "model": "speaker:Speaker",
        "options": {"say": say, "unsure": settings.pop("unsure", 1)},
        "decoding": {
            "read": {"type": "chunk", "ms": every},
            "commit": {"type": "local_agreement", "n": 2},
        },
    }
    path = folder / "cascade.yaml"
    content = {"recogniser": recogniser, "translator": translator, **settings}

    path.write_text(yaml.safe_dump(content))
    return path


def streamed(model: Any, say: str, cut: int, **policy: Any) -> list[tuple[str, float]]:
    """What a stream writes, and when, of a text that comes in pieces of `cut` samples."""
    decoding = parse_decoding({"read": {"type": "chunk", "ms": 400}, **policy}, "test")
    samples = audio(say)
    return pushed(open_stream(model, decoding, "en", "de"), samples, range(cut, samples.size, cut))
