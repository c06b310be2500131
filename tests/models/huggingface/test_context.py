"""What Hugging Face models and CTranslate2's Whisper are told of a recording."""

from typing import Any

import pytest
import torch
from tiny_huggingface import PAIRS, noise

from simulst.background import Background, told
from simulst.calls import run_alone
from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.meter import Memo, Meter
from simulst.models import load_model
from simulst.models.huggingface.model import HuggingFace
from simulst.models.whisper import network
from simulst.models.whisper.model import Whisper
from simulst.models.whisper.prompts import PREVIOUS_TOKENS, PROMPT_TOKENS
from simulst.opening import Opening
from simulst.policy.commit import All
from simulst.policy.read import Chunk
from simulst.search import BeamSearch, JointBeamSearch
from simulst.streams import open_stream

GREEDY = JointBeamSearch(beam=1, ctc_weight=0.0, max_length_ratio=0.3)
KNOWN = Background("a source", "the dog.", (("dog", "der Hund"), ("Café", "Café"), ("source", "")))


def test_text_before_the_utterance(models: dict[str, HuggingFace]) -> None:
    """Whisper's prompt shows it, behind the background; a text then may begin with any token. Others do not see it."""
    for kind, model in models.items():
        shows, plain = kind == "whisper", model.session(Opening(*PAIRS[kind]))._prompt()
        for known, text in ((Background(), " and the cat"), (Background("", "the dog."), " the dog. and the cat")):
            session = model.session(Opening(*PAIRS[kind], background=known, history="and the cat"))
            told = session._prompt()
            assert told[-len(plain) :] == plain and session.text(told[: -len(plain)]) == text * shows


@pytest.mark.parametrize("kind", ["whisper", "mbart"])
def test_what_may_come_first_after_other_text(kind: str, folders: dict[str, Any]) -> None:
    """What Whisper must not begin with is forbidden at the beginning alone; mBART does not know of other text."""
    model: Any = load_model(folders[kind], threads=1)
    model.architecture.never_first = (10, 11, 12)
    for before, text, free in (("", "", False), ("and the cat", "", True), ("", "the dog", True)):
        session = model.session(Opening(*PAIRS[kind], background=Background("", text), history=before))
        session.extend(noise(1))
        run_alone(session._encode())
        search = session._search_over(session._encoded, GREEDY)
        first = search.decoder.step(torch.tensor([0]), search.decoder.start(), search.memory)[0]
        assert first[0, 10:13].isneginf().all() == (not (free and kind == "whisper"))


def test_other_text_before_is_another_search(models: dict[str, HuggingFace]) -> None:
    """Configurations with different histories share what was encoded, and no texts."""
    found: dict[bool, list[Tokens]] = {True: [], False: []}
    for shared, texts in found.items():
        memo = Memo()
        for before in ("", "and the cat", "der Hund und die Katze"):
            about = Opening(*PAIRS["whisper"], Meter(memo if shared else None), history=before)
            session = models["whisper"].session(about)
            session.extend(noise(2))
            texts.append(run_alone(session.search((), GREEDY, None)).best)
    assert found[True] == found[False] and len(set(found[True])) > 1


@pytest.mark.parametrize("form", ["ctranslate2", "huggingface"])
def test_terms_stay_while_the_text_before_scrolls(
    form: str, models: dict[str, HuggingFace], endless: Whisper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stand first in each prompt, also in those of windows that slide, and are others once others are told."""
    model: Any = endless if form == "ctranslate2" else models["whisper"]
    asked: list[Tokens] = []
    if form == "ctranslate2":
        answer = network.generate
        monkeypatch.setattr(network, "generate", lambda calls: asked.append(calls[0].previous) or answer(calls))
    else:
        prompt = model.architecture.prompt
        monkeypatch.setattr(model.architecture, "prompt", lambda *about: asked.extend(about[2:]) or prompt(*about))
    few = BeamSearch(1, max_tokens_per_second=3.0) if form == "ctranslate2" else GREEDY
    how = Decoding(Chunk(9000), All(), search=few)
    stream: Any = open_stream(model, how, "es", "en", background=told("perro=dog; Café"))
    for number, known in enumerate(("dog, Café.", "the mat.", "")):
        if number:
            stream.tell(told("mat", target_text=known) if known else Background())
        known = "mat. the mat." if known == "the mat." else known
        asked.clear()
        stream.push(noise(40, seed=number), finished=known == "")
        texts = [stream.session.text(tokens).strip() for tokens in asked]
        assert texts and all(text.startswith(known) for text in texts) and max(map(len, asked)) <= PROMPT_TOKENS
        assert len({text.removeprefix(known) for text in texts}) > 1  # the text before the window scrolls
    assert stream.session.evicted > PREVIOUS_TOKENS or form == "huggingface"
    both = told("dog", target_text="the cat").between("en", "en")
    assert both.target_terms == ("dog",) and both.target_text == ""  # that is in another language


def test_terms_that_have_no_room(whisper: Whisper, caplog: pytest.LogCaptureFixture) -> None:
    """As many of the first as fit; what is too long is refused in a sentence."""
    terms = [f"cat{number}" for number in range(400)]
    session: Any = whisper.session(Opening("es", "en", background=told("\n".join(terms))))
    shown = session.text(session._known).strip().removesuffix(".").split(", ")
    assert shown == terms[: len(shown)] and 20 < len(shown) < 100 and len(session._known) <= 223 - 64
    assert f"the prompt has room for {len(shown)} of 400 terms" in caplog.text
    text = " ".join(f"word{number}" for number in range(300))
    session = whisper.session(Opening("es", "en", background=told("dog", target_text=text)))
    assert session.text(session._known).startswith(" dog.") and session.text(session._known).endswith("word299")
    for field in ("terms", "text", "target_text"):
        with pytest.raises(SimulstError, match=f"{field}: 600000 characters are too many; give at most 4000"):
            told(**{field: "a word" * 100_000})
    with pytest.raises(SimulstError, match="terms: '=' stands there without a term"):
        told("dog; =")
    # Those of a table are not put into prompts: a list makes Whisper leave out words.
    assert whisper.session(Opening("es", "en", background=Background(terms=(("perro", "dog"),))))._known == ()


def test_a_bonus_for_terms(models: dict[str, HuggingFace]) -> None:
    """A large one makes a random model write them, whole, once it is told them; without one, or without terms, not."""
    texts = []
    for kind, bonus in (("mbart", 20.0), ("whisper", 20.0), ("mbart", 0.0), ("whisper", 0.0)):
        session = models[kind].session(Opening(*PAIRS[kind]))
        session.extend(noise(2))
        options = JointBeamSearch(1, 0.0, max_length_ratio=0.3, terms_bonus=bonus)
        for known in (Background(), Background(terms=KNOWN.terms), Background()):
            session.tell(known)
            texts.append(session.text(run_alone(session.search((), options, None)).best))
    for before, with_terms, after in (texts[:3], texts[3:6]):
        assert before == after and ("der Hund" in with_terms or "Café" in with_terms) and "der Hund" not in before
    assert texts[6:] == [texts[0]] * 3 + [texts[3]] * 3
