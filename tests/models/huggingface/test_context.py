"""What Hugging Face models and CTranslate2's Whisper are told of a recording."""

from typing import Any

from tiny_huggingface import PAIRS, noise

from simulst.context import Background
from simulst.models.huggingface.model import HuggingFace
from simulst.models.whisper import Whisper
from simulst.search import JointBeamSearch

GREEDY = JointBeamSearch(beam=1, ctc_weight=0.0, max_length_ratio=0.3)
KNOWN = Background("a source", "the dog.", (("dog", "der Hund"), ("Café", "Café"), ("source", "")))


def test_whispers_prompt(models: dict[str, HuggingFace], whisper: Whisper) -> None:
    """The text stands where text before the window stands."""
    session: Any = models["whisper"].session(*PAIRS["whisper"])
    plain = session._prompt()
    session.tell(KNOWN)
    told = session._prompt()
    assert told[-len(plain) :] == plain and session.text(told).strip() == "the dog. der Hund, Café"
    other: Any = whisper.session("es", "en")
    other.tell(KNOWN)
    other.extend(noise(1))
    asked = []
    generate = whisper.generate
    whisper.generate = lambda *a: asked.append(a[2]) or generate(*a)  # type: ignore[method-assign]
    try:
        other.search((), other.default_search, None)
    finally:
        del whisper.generate
    assert whisper.text(asked[0]).strip() == "the dog. der Hund, Café"


def test_a_bonus_for_terms(models: dict[str, HuggingFace]) -> None:
    """A large one makes a random model write them, whole; without one, or without terms, nothing changes."""
    for kind in ("mbart", "whisper"):
        texts = {}
        for bonus, known in ((0.0, KNOWN), (20.0, KNOWN), (20.0, Background())):
            session: Any = models[kind].session(*PAIRS[kind])
            session.tell(Background(terms=known.terms))
            session.extend(noise(2))
            options = JointBeamSearch(1, 0.0, max_length_ratio=0.3, terms_bonus=bonus)
            texts[bonus, bool(known.terms)] = session.text(session.search((), options, None).best)
        if kind == "mbart":  # Whisper reads its terms in the prompt, too
            assert texts[0.0, True] == texts[20.0, False]
        assert "der Hund" in texts[20.0, True] or "Café" in texts[20.0, True]
        assert "der Hund" not in texts[0.0, True]
