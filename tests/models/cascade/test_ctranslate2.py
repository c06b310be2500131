"""Tiny random Marian, M2M-100 and language models, turned into CTranslate2's form by its own converter."""

import copy
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import speaker
import tiny_huggingface
from fake import opened as opened_stop
from tiny_huggingface import change, to_ctranslate2

from simulst.background import Background
from simulst.calls import Batched
from simulst.errors import SimulstError
from simulst.models.cascade.ctranslate2 import CTranslate2Text, Source, most_tokens, translating
from simulst.models.cascade.huggingface import HuggingFaceText
from simulst.models.cascade.llm import LLM
from simulst.models.registry import load_model
from simulst.opening import Opening
from simulst.policy.stop import MaxTokens
from simulst.search import BeamSearch, JointBeamSearch

SENTENCE = "the cat sat on the mat"
SAY = "The cat sat. On the mat it sat and the dog"
FILES = ("tokenizer.json", "tokenizer_config.json")
CHATS = (*FILES, "chat_template.jinja", "generation_config.json")


@pytest.fixture(scope="module")
def folders(chats: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """For each kind the original and the converted model."""
    place = tmp_path_factory.mktemp("ct2")
    texts = {
        kind: tiny_huggingface.write_text_model(place / kind, kind, pad_last=kind == "marian")
        for kind in ("marian", "m2m")
    }
    return {
        kind: (original, to_ctranslate2(original, place / f"{kind}-ct2", CHATS if kind in chats else FILES))
        for kind, original in (texts | chats).items()
    }


def opened(folder: Path, **options: Any) -> Any:
    options = {"compute_type": "float32", **options}
    return CTranslate2Text(str(folder), **options).load(folder / "cascade.yaml", 1)(Opening("en", "de"))


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("kind", ["marian", "m2m", "llama", "qwen3"])
def test_greedy_search_is_that_of_the_original(kind: str, folders: dict[str, tuple[Path, Path]]) -> None:
    original, converted = folders[kind]
    of_library: Any = HuggingFaceText(str(original)) if kind in ("marian", "m2m") else LLM(model=str(original))
    theirs = of_library.load(original / "cascade.yaml", 1)(Opening("en", "de"))
    ours = opened(converted)
    greedy = JointBeamSearch(beam=1, ctc_weight=0.0, max_length_ratio=3.0)
    for sentence in (SENTENCE, "the dog"):
        for prefix in ((), (10, 11)):
            [expected] = speaker.searched(theirs, sentence, prefix, greedy, None)
            [found] = speaker.searched(ours, sentence, prefix, BeamSearch(beam=1), None)
            size = min(len(expected.tokens), len(found.tokens))  # they bound the length differently
            assert found.tokens[:size] == expected.tokens[:size] and size
            assert ours.text(found.tokens[:size]) == theirs.text(expected.tokens[:size])


def test_beams_and_stop(folders: dict[str, tuple[Path, Path]]) -> None:
    ours = opened(folders["m2m"][1])
    beam = speaker.searched(ours, SENTENCE, (10, 11), BeamSearch(beam=4), None)
    assert len(beam) == 4 and all(h.tokens[:2] == (10, 11) for h in beam)
    assert [h.score for h in beam] == sorted((h.score for h in beam), reverse=True)
    assert len(speaker.searched(ours, SENTENCE, (10, 11), BeamSearch(beam=1), opened_stop(MaxTokens(3)))[0].tokens) == 5


def test_texts_in_a_batch(folders: dict[str, tuple[Path, Path]]) -> None:
    """Each translation is what it is alone, though the texts differ in length and reach bounds of their own."""
    translations = [opened(folders["m2m"][1])]
    translations.append(copy.copy(translations[0]))  # of another stream
    asked = [
        ("the dog", ()),
        (SENTENCE, (10, 11)),
        ("the cat sat on the mat and the dog sat on the cat", (12,)),
        ("the", ()),
    ]
    calls = [
        translating(translations[i % 2], translations[0].source(text), prefix, BeamSearch(3))
        for i, (text, prefix) in enumerate(asked)
    ]
    assert len({call.together for call in calls}) == 1
    found, alone = Batched.answer_together(calls), [call.answer() for call in calls]
    assert [[h.tokens for h in beam] for beam in found] == [[h.tokens for h in beam] for beam in alone]
    for together, apart in zip(found, alone, strict=True):
        assert [h.score for h in together] == pytest.approx([h.score for h in apart], abs=1e-4)
    source = calls[0].argument[2]
    bounds = [call.argument[2].most for call in calls]
    longest = [max(len(h.tokens) for h in beam) for beam in found]
    assert any(length == bound < max(bounds) for length, bound in zip(longest, bounds, strict=True))
    # At its bound, a text that has ended in that same step is found beside those that have not.
    near = [
        translating(translations[0], Source(tokens, most_tokens(tokens)), prefix, BeamSearch(5, no_repeat_ngram=3))
        for tokens, prefix in (((72, 33, 40, 2), ()), ((72, 63, 62, 62, 59, 39, 2), (31, 31, 11)))
    ]
    assert len({call.together for call in near}) == 1
    found, alone = Batched.answer_together(near), [call.answer() for call in near]
    assert [[h.tokens for h in beam] for beam in found] == [[h.tokens for h in beam] for beam in alone]
    # Without a penalty, a search may go on although enough has ended.
    assert len({translating(*call.argument[:1], *call.argument[2:], BeamSearch(5, 0.0)).together for call in near}) == 2
    full = tuple(range(10, 10 + source.most))
    assert translating(translations[0], source, full, BeamSearch(3)).together is None
    other = opened(folders["m2m"][1])
    assert translating(other, source, (), BeamSearch(3)).together != calls[0].together


def test_texts_without_and_with_a_prefix_share_no_batch(folders: dict[str, tuple[Path, Path]]) -> None:
    """CTranslate2 treats <eos> otherwise if there is a prefix in the batch. M2M-100's language is one."""
    for kind, groups in (("marian", 2), ("m2m", 1)):
        ours = opened(folders[kind][1])
        calls = [translating(ours, ours.source("the dog"), prefix, BeamSearch(3)) for prefix in ((), (10,), (10, 11))]
        assert len({call.together for call in calls}) == groups


def test_all_of_a_long_text_is_read(tmp_path: Path) -> None:
    """Of texts with more than 1024 tokens, CTranslate2 would drop the end."""
    original = tiny_huggingface.write_text_model(tmp_path / "t5", "t5")
    ours = opened(to_ctranslate2(original, tmp_path / "t5-ct2", FILES))
    texts = [ours.source("the cat " * 600 + end) for end in ("the dog sat", "by the mat")]
    assert min(len(text.tokens) for text in texts) > 1100
    texts = [replace(text, most=5) for text in texts]
    scores = [ours.translate([text], [()], BeamSearch(1))[0][0].score for text in texts]
    assert scores[0] != scores[1]


@pytest.mark.parametrize("beam", [1, 4])
def test_chats_in_a_batch(beam: int, folders: dict[str, tuple[Path, Path]]) -> None:
    """Each answer is what it is alone, though chats and forced beginnings differ in length, and hold tokens that end.

    What all chats begin with is read once, unless something is known of the recording.
    """
    load = CTranslate2Text(model=str(folders["llama"][1]), compute_type="float32", history=1)
    opener = load.load(folders["llama"][1] / "cascade.yaml", 1)
    terms = Background(terms=(("cat", "Katze"),))
    openings = [Opening("en", "de"), Opening("en", "de", background=terms), Opening("en", "de")]
    several: list[Any] = [opener(opening) for opening in openings]
    asked = [(SENTENCE, (), ()), ("the dog", (10, 11), ()), ("the", (12,), (("the cat", "die Katze"),)), ("a", (), ())]
    calls = [
        translating(one, one.source(text, past), prefix, BeamSearch(beam))
        for one in several
        for text, prefix, past in asked
    ]
    statics = {one._static(source) for one, _, source, _ in (call.argument for call in calls)}
    assert {*map(bool, statics)} == {True, False} and len(statics) == 2
    groups: dict[Any, list[Batched]] = {}
    for call in calls:
        groups.setdefault(call.together, []).append(call)
    assert len(groups) == 2 if beam == 1 else len(groups) > 2
    for group in groups.values():
        found, alone = Batched.answer_together(group), [call.answer() for call in group]
        assert [[h.tokens for h in beam] for beam in found] == [[h.tokens for h in beam] for beam in alone]
        prefixes = [call.argument[3] for call in group]
        assert all(h.tokens[: len(p)] == p for p, beam in zip(prefixes, alone, strict=True) for h in beam)
    several[0]._begin = ()
    [expected] = several[0].translate([calls[0].argument[2]], [()], BeamSearch(beam))
    assert [h.tokens for h in expected] == [h.tokens for h in calls[0].answer()]
    assert any(len(h.tokens) == call.argument[2].most for call in calls for h in call.answer())


@pytest.mark.parametrize("kind", ["marian", "qwen3"])
def test_streams(kind: str, folders: dict[str, tuple[Path, Path]], tmp_path: Path) -> None:
    model = load_model(speaker.write(tmp_path, {"type": "ctranslate2", "model": str(folders[kind][1])}, SAY))
    first, second = (speaker.streamed(model, SAY, cut, commit={"type": "hold", "n": 2}) for cut in (3200, 20000))
    assert first == second and first


def test_bad_models(folders: dict[str, tuple[Path, Path]], tmp_path: Path) -> None:
    original, converted = folders["m2m"]
    bare = Path(shutil.copytree(converted, tmp_path / "bare", ignore=shutil.ignore_patterns("tokenizer*")))
    short = Path(shutil.copytree(converted, tmp_path / "short"))
    (short / "model.bin").write_bytes((short / "model.bin").read_bytes()[:2000])
    assert speaker.searched(opened(bare, tokenizer=str(original)), SENTENCE, (), BeamSearch(beam=1), None)
    chats, whisper = folders["qwen3"][1], tmp_path / "whisper"
    plain = Path(shutil.copytree(chats, tmp_path / "plain", ignore=shutil.ignore_patterns("*.jinja")))
    whisper.mkdir()
    (whisper / "model.bin").write_bytes(b"\x06\0\0\0\x0c\0WhisperSpec\0" + bytes(9))
    change(chats / "tokenizer_config.json", model_max_length=40)
    with pytest.raises(SimulstError, match=r"the chat has .* tokens, but the model reads 40; give it fewer examples"):
        opened(chats).source("the cat " * 20)
    for folder, options, words in (
        (folders["marian"][1], {"history": 1}, "history are for language models"),
        (plain, {}, "has no chat template"),
        (whisper, {}, "a Whisper, which translates no text"),
        (original, {}, "no model.bin; convert a model with ct2-transformers-converter"),
        (bare, {}, "has no tokeniser; convert the model again with --copy_files"),
        (bare, {"tokenizer": "gone"}, "gone: no such folder"),
        (short, {}, "CTranslate2 cannot load the model"),
        (converted, {"compute_type": "int3"}, "on cpu, compute_type may be auto, .*int8"),
    ):
        with pytest.raises(SimulstError, match=words) as caught:
            opened(folder, **options)
        assert "\n" not in str(caught.value)
    with pytest.raises(SimulstError, match=r"cannot translate a text of 83 tokens \(No position .*most_words"):
        speaker.searched(opened(converted), "cat " * 80, (), BeamSearch(beam=1), None)
    path = speaker.write(tmp_path, {"type": "ctranslate2", "model": str(converted)}, SAY)
    with pytest.raises(SimulstError, match="has no language 'fr'; it has de, en, zh"):
        load_model(path).session(Opening("en", "fr"))
