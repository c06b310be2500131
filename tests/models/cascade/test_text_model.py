"""Text models of transformers behind a recogniser, tiny and random."""

import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake
import pytest
import sentencepiece
import speaker
import tiny_huggingface
import torch
import transformers

from simulst.config import parse_decoding
from simulst.errors import SimulstError, warn_once
from simulst.models.cascade.huggingface import HuggingFaceText
from simulst.models.huggingface.architectures import Architecture
from simulst.models.registry import load_model
from simulst.opening import Opening
from simulst.policy.stop import AlignAtt
from simulst.search import JointBeamSearch
from simulst.streams import open_stream

GREEDY = JointBeamSearch(beam=1, ctc_weight=0.0, max_length_ratio=1.0)
SENTENCE = "the cat sat on the mat"
PAIRS = ((1, 0), (0, 1))
GERMAN = ["die Katze sitzt auf der Matte und der Hund bei der Katze", "das Haus und der Garten Lichtstrahl"]
KINDS = {
    "marian": ("en", "de"),
    "marian_many": ("en", "fr"),
    "m2m": ("en", "de"),
    "mbart": ("en", "de"),
    "t5": ("en", "fr"),
}
BEFORE = {"marian_many": [">>fra<<"], "t5": ["<2fr>"], "m2m": ["eng_Latn"], "mbart": ["en_XX"]}
FORCED = {"m2m": "deu_Latn", "mbart": "de_DE"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("text")
    return {kind: tiny_huggingface.write_text_model(place / kind, kind) for kind in KINDS}


@functools.cache
def opener(folder: Path) -> Any:
    return HuggingFaceText(str(folder)).load(folder / "cascade.yaml", 1)


def translation(folder: Path, kind: str) -> Any:
    return opener(folder)(Opening(*KINDS[kind]))


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_search_is_the_librarys(kind: str, folders: dict[str, Path]) -> None:
    ours = translation(folders[kind], kind)
    parts = ours._parts
    ids = parts.tokenizer.encode(SENTENCE, add_special_tokens=False)
    source = [*parts.tokenizer.convert_tokens_to_ids(BEFORE.get(kind, [])), *ids, 2]
    forced = {}
    if kind in FORCED:
        forced["forced_bos_token_id"] = parts.tokenizer.convert_tokens_to_ids(FORCED[kind])
    [theirs] = parts.model.generate(
        input_ids=torch.tensor([source]), num_beams=1, do_sample=False, max_new_tokens=16, **forced
    ).tolist()
    theirs = theirs[2 if kind in FORCED else 1 :]
    theirs = tuple(theirs[: theirs.index(2)] if 2 in theirs else theirs)
    [best] = speaker.searched(ours, SENTENCE, (), GREEDY, None)
    assert best.tokens[: len(theirs)] == theirs and len(theirs) > 3


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sentence", [SENTENCE, "der Hund, ein Café ☃ the cat", "the cat , the dog , a cat"])
def test_where_the_search_ends(
    kind: str, sentence: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first token whose source word is not accessible, by a full pass of the library; <unk> is of a word.

    Published tokenisers may delete spaces before commas in what they decode.
    """
    ours = translation(folders[kind], kind)
    for option in ("", "_for_bpe_even_though_it_will_corrupt_output"):
        monkeypatch.setattr(ours._parts.tokenizer, f"clean_up_tokenization_spaces{option}", True)
    tokenizer, ids, words = ours._parts.tokenizer, ours._ids(sentence), sentence.split()
    special = set(tokenizer.all_special_tokens) - {"<unk>"} | set(BEFORE.get(kind, ()))
    pieces = tokenizer.convert_ids_to_tokens(ids)
    spoken = [place for place, piece in enumerate(pieces) if piece not in special]
    word = {place: "".join(pieces[first] for first in spoken if first <= place).count("▁") - 1 for place in spoken}
    assert len(spoken) < len(ids) and sorted(set(word.values())) == list(range(len(words)))
    [whole] = speaker.searched(ours, sentence, (), GREEDY, None)
    eager = transformers.AutoModelForSeq2SeqLM.from_pretrained(folders[kind], attn_implementation="eager").eval()
    with torch.inference_mode():
        given = torch.tensor([[*ours._prompt, *whole.tokens]])
        seen = eager(input_ids=torch.tensor([ids]), decoder_input_ids=given, output_attentions=True).cross_attentions
    rows = torch.stack([seen[layer][0, head] for layer, head in PAIRS]).mean(0)[len(ours._prompt) - 1 :]
    attended = [word[spoken[place]] for place in rows[:, spoken].argmax(-1).tolist()]
    for final, last in (*((n, 0) for n in range(len(words) + 1)), (2, 1), (len(words), 1)):
        kept = next((n for n, one in enumerate(attended) if one > final - 1 - last), len(whole.tokens))
        stop = fake.opened(AlignAtt(words=last, pairs=PAIRS), layers=2, heads=2, source_words=lambda n=final: n)
        assert speaker.searched(ours, sentence, (), GREEDY, stop)[0].tokens == whole.tokens[:kept]


@pytest.mark.parametrize("kind", KINDS)
def test_a_translation_goes_on_from_its_beginning(kind: str, folders: dict[str, Path]) -> None:
    """Whether the sentence is new, or was translated before from another beginning."""
    ours = translation(folders[kind], kind)
    whole = speaker.searched(ours, SENTENCE, (), GREEDY, None)[0].tokens
    for prefix in (whole[:3], (10, 11), whole[:1], ()):
        [again] = speaker.searched(ours, SENTENCE, prefix, GREEDY, None)
        [fresh] = speaker.searched(translation(folders[kind], kind), SENTENCE, prefix, GREEDY, None)
        assert again.tokens == fresh.tokens and again.tokens[: len(prefix)] == prefix


@pytest.mark.parametrize(
    "policy",
    [
        {"commit": {"type": "local_agreement", "n": 2}},
        {"commit": {"type": "hold", "n": 2}},
        {"commit": {"type": "all"}, "stop": {"type": "align_att", "frames": 2}},
        {"commit": {"type": "all"}, "stop": {"type": "align_att", "words": 1}},
    ],
    ids=("agreement", "hold", "align_att", "words"),
)
def test_policies(policy: dict[str, Any], folders: dict[str, Path], tmp_path: Path) -> None:
    say = "The cat sat. On the mat it sat and the dog"
    path = speaker.write(tmp_path, {"type": "huggingface", "model": str(folders["marian"])}, say)
    model = load_model(path)
    search = {"type": "joint_beam", "beam": 2, "ctc_weight": 0.0, "max_length_ratio": 1.0}
    first, second = (speaker.streamed(model, say, cut, search=search, **policy) for cut in (3200, 20000))
    assert first == second and first


def test_a_text_that_is_too_long(folders: dict[str, Path], tmp_path: Path) -> None:
    """It is refused, not cut; the words before it stay."""
    say = "The cat sat. " + "The dog sat on the mat by the cat " * 12
    path = speaker.write(tmp_path, {"type": "huggingface", "model": str(folders["marian"])}, say, most_words=200)
    policy = {"commit": {"type": "all"}, "stop": {"type": "max_tokens", "n": 2}}
    decoding = parse_decoding({"read": {"type": "chunk", "ms": 2000}, **policy}, "test")
    stream = open_stream(load_model(path), decoding, "en", "de")
    with pytest.raises(SimulstError, match=r"marian: a text has \d+ tokens, but the model reads 80; .*most_words"):
        stream.push(speaker.audio(say), finished=True)
    assert stream.emissions


def test_a_translation_that_fills_the_positions(folders: dict[str, Path], caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    ours, prefix = translation(folders["marian"], "marian"), (10, 11) * 40
    for size in (78, 79, 80):
        found = speaker.searched(ours, SENTENCE * 3, prefix[:size], GREEDY, None)
        assert found[0].tokens[:size] == prefix[:size]
    assert [h.tokens for h in found] == [prefix]
    [said] = [record.getMessage() for record in caplog.records if "positions" in record.getMessage()]
    assert "fills the 80 positions of the decoder, so a step added nothing; let sentences be shorter" in said


def test_bad_models(folders: dict[str, Path], tmp_path: Path) -> None:
    speech = tiny_huggingface.write(tmp_path / "speech", "mbart")
    for model, words in (
        (str(speech), "does not turn text into text"),
        (str(tmp_path / "gone"), "no such folder; check the path"),
    ):
        path = speaker.write(tmp_path, {"type": "huggingface", "model": model}, SENTENCE)
        with pytest.raises(SimulstError, match=words):
            load_model(path)
    for kind, pair in (("m2m", ("en", "fr")), ("marian_many", ("en", "es"))):
        path = speaker.write(tmp_path, {"type": "huggingface", "model": str(folders[kind])}, SENTENCE)
        with pytest.raises(SimulstError, match=f"has no language '{pair[1]}'; it has de"):
            load_model(path).session(Opening(*pair))


def test_marian_spells_terms_with_the_pieces_of_the_target(tmp_path: Path) -> None:
    """Its released models have a SentencePiece model for each side."""
    pieces: list[str] = []
    for name, texts in (("source", [SENTENCE, "a translation of speech", "the garden"]), ("target", GERMAN)):
        (tmp_path / "texts").write_text("\n".join(texts * 30))
        sentencepiece.SentencePieceTrainer.train(
            input=str(tmp_path / "texts"), model_prefix=str(tmp_path / name), vocab_size=40, model_type="bpe",
            hard_vocab_limit=False, minloglevel=2,
        )  # fmt: skip
        (tmp_path / f"{name}.model").rename(tmp_path / f"{name}.spm")
        found = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / f"{name}.spm"))
        pieces += [found.id_to_piece(number) for number in range(3, found.get_piece_size())]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(("</s>", "<unk>", *pieces, "<pad>")))}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "Lichtstrahl"
    spelled = tokenizer.convert_ids_to_tokens(Architecture.tokens(SimpleNamespace(tokenizer=tokenizer), text, "de"))  # type: ignore[arg-type]
    assert spelled == found.encode(text, out_type=str)
