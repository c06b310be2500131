"""Which heads align: on attention that is made up, on tiny random models, and by the command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tiny_espnet
import tiny_huggingface
import tiny_pieces
import torch
import transformers
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulst.audio.read import load_audio
from simulst.commands.models import models
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.models.aligned_pairs import Aligned, align_pairs, read_pairs, read_pharaoh, spoken_pairs, spread
from simulst.models.cascade.loading import open_translator, read_translator
from simulst.models.heads import Seen, Spoken, heads_beside, rank
from simulst.models.huggingface.decoder import SteppedDecoder
from simulst.opening import Opening

PAIRS: list[dict[str, Any]] = [
    {"source_words": ["the", "cat"], "target_words": ["die", "Katze"], "alignments": [[0, 0], [1, 1]]},
    {
        "source_text": "the dog sat.",
        "target_text": "der Hund saß.",
        "source_words": ["the", "dog", "sat", "."],
        "target_words": ["der", "Hund", "saß", "."],
        "alignments": [{"source_span": [0, 2], "target_span": [1, 2]}, {"source_span": [2, 3], "target_span": [2, 3]}],
    },
]


class MadeUp:
    """Tokens of one letter. Head 1 of layer 0 is always right, its neighbours in so many of ten pairs."""

    right = ((0, 10), (3, 7))

    def __init__(self) -> None:
        self.asked = 0

    def seen(self, source: str, target: str) -> Seen:
        weights = np.zeros((2, 2, len(target), len(source)))
        for layer, head in np.ndindex(2, 2):
            for token in range(len(target)):
                right = self.asked < self.right[layer][head]
                weights[layer, head, token, -1 - token if right else token] = 1 + head
        self.asked += 1
        return Seen(weights, range(1, len(source) + 1), range(1, len(target) + 1))


def test_the_best_heads() -> None:
    """A translation from the last letter to the first."""
    spans = [(number, number + 1) for number in range(4)]
    pair = Aligned("abcd", "dcba", spans, spans, [(3 - number, number) for number in range(4)])
    found = rank(MadeUp().seen, [pair] * 10, 2)
    assert (found.heads, found.scores, found.pairs, found.tokens) == ([(0, 1), (1, 1)], [1.0, 0.7], 10, 40)
    assert found.mean == 0.85  # where the two disagree, the first of the greatest is right at half of the tokens
    assert 0.9 < found.same <= 1 and 0.8 < found.other < 0.9
    assert rank(MadeUp().seen, [Aligned("abcd", "dcba", spans, spans, [(3, 0)])] * 10, 1).tokens == 10
    with pytest.raises(SimulstError, match=r"the model has 4 heads; choose 5 of them with a smaller --count"):
        rank(MadeUp().seen, [pair] * 2, 5)
    with pytest.raises(SimulstError, match="1 of 2 pairs have aligned words and are spelled by the model's tokens"):
        rank(MadeUp().seen, [pair, Aligned("abcd", "dcba", spans, spans, [])], 1)


def test_pairs_of_json(tmp_path: Path) -> None:
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(PAIRS))
    first, second = read_pairs(path)
    assert first == Aligned("the cat", "die Katze", [(0, 3), (4, 7)], [(0, 3), (4, 9)], [(0, 0), (1, 1)])
    assert second.source_words == [(0, 3), (4, 7), (8, 11), (11, 12)] and second.links == [(0, 1), (1, 1), (2, 2)]


def test_pairs_of_pharaoh(tmp_path: Path) -> None:
    links, source, target = (tmp_path / name for name in ("links", "source", "target"))
    for path, text in ((links, "0-0 1-1\n\n"), (source, "the cat\na\n"), (target, "die Katze\nein\n")):
        path.write_text(text)
    first, second = read_pharaoh(links, source, target)
    assert first == Aligned("the cat", "die Katze", [(0, 3), (4, 7)], [(0, 3), (4, 9)], [(0, 0), (1, 1)])
    assert second.links == []
    for text, words in (
        ("0-0 1-2\n\n", r"links: line 1: the alignment names word 2 of the target, which has 2, counted from 0"),
        ("0-0 5-1\n\n", r"links: line 1: the alignment names word 5 of the source"),
        ("0:0\n\n", r"links: line 1 is not in Pharaoh's format, such as '0-0 2-1': '0:0'"),
        ("0-0\n", r"a line for each pair; .*links has 1, .*source has 2"),
    ):
        links.write_text(text)
        with pytest.raises(SimulstError, match=words):
            read_pharaoh(links, source, target)


def test_pairs_with_other_words_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "pairs.json").write_text(json.dumps([*PAIRS, {**PAIRS[0], "source_text": "The cat"}]))
    assert len(read_pairs(tmp_path / "pairs.json")) == 2
    assert "1 of 3 pairs are left out" in caplog.text and "pair 3: the word 'the'" in caplog.text


WORDS = {"the": "der", "dog": "Hund", "cat": "Kater", "sees": "sieht", "hears": "hört", "old": "alte", "man": "Mann"}


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 99))
def test_pairs_that_are_aligned_here(tmp_path: Path, seed: int) -> None:
    """Translations word by word, in another order: nearly all links are right, and nothing else is linked."""
    draw = np.random.default_rng(seed)
    source, target, right = list[str](), list[str](), list[set[tuple[int, int]]]()
    for _ in range(100):
        words, order = draw.permutation(list(WORDS))[:5], draw.permutation(5)
        source.append(" ".join(words).capitalize() + ".")
        target.append(" ".join(WORDS[words[place]] for place in order) + ".")
        right.append({(int(place), number) for number, place in enumerate(order)} | {(5, 5)})
    (tmp_path / "en").write_text("\n".join(source))
    (tmp_path / "de").write_text("\n".join(target))
    found = align_pairs(tmp_path / "en", tmp_path / "de", ("en", "de"))
    links = [set(pair.links) for pair in found]
    assert sum(len(one & other) for one, other in zip(links, right, strict=True)) > 0.9 * 600
    assert sum(len(one - other) for one, other in zip(links, right, strict=True)) < 0.1 * 600
    assert found[0].source == source[0] and found[0].source_words[5] == (len(source[0]) - 1, len(source[0]))
    assert spread(found, 4) == found[::25] and spread(found, 200) == found


def test_pairs_of_characters(tmp_path: Path) -> None:
    (tmp_path / "en").write_text("good day\n" * 20)
    (tmp_path / "zh").write_text("你 好。\n" * 20)
    assert align_pairs(tmp_path / "en", tmp_path / "zh", ("en", "zh"))[0].target_words == [(0, 1), (2, 3), (3, 4)]
    (tmp_path / "zh").write_text("你好\n")
    with pytest.raises(SimulstError, match="a line for each pair"):
        align_pairs(tmp_path / "en", tmp_path / "zh", ("en", "zh"))
    with pytest.raises(SimulstError, match="has 1 pairs; words are aligned from 20 on"):
        align_pairs(tmp_path / "zh", tmp_path / "zh", ("zh", "zh"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON .*; give pairs with word alignments"),
        ('{"pairs": []}', "not a list of pairs"),
        (json.dumps([{**PAIRS[0], "alignments": [[2, 0]]}]), "pair 1: the alignment names word 2 of the source"),
        (json.dumps([{**PAIRS[0], "alignments": [[0, -1]]}]), "pair 1: the alignment names word -1 of the target"),
        (json.dumps([{**PAIRS[0], "alignments": [["a", 0]]}]), "not a list of pairs"),
        (json.dumps([{**PAIRS[0], "source_text": "The cat"}]), "pair 1: the word 'the' is not in the source"),
    ],
)
def test_bad_pairs(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.json").write_text(content)
    with pytest.raises(SimulstError, match=words):
        read_pairs(tmp_path / "pairs.json")


def translator(folder: Path, kind: str) -> dict[str, Any]:
    if kind == "marian":
        return {"type": "huggingface", "model": str(tiny_huggingface.write_text_model(folder / "m", kind))}
    return {"type": "llm", "model": str(tiny_huggingface.write_language_model(folder / "m", kind))}


@pytest.mark.parametrize("kind", ["llama", "qwen3", "marian"])
def test_what_is_seen_is_what_the_library_shows(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    ours: Any = read_translator(path, translator(tmp_path, kind)).load(path, 1)(Opening("en", "de"))
    source, target = "the cat sat", "die Katze, ein Café"
    seen = ours.seen(source, target)
    load = getattr(transformers, f"AutoModelFor{'Seq2SeqLM' if kind == 'marian' else 'CausalLM'}").from_pretrained
    model = load(tmp_path / "m", attn_implementation="eager").eval()
    with torch.inference_mode():
        if kind == "marian":
            tokens = ours._parts.tokens(target, "de")
            fed = torch.tensor([[*ours._prompt, *tokens[:-1]]])
            about = model(input_ids=torch.tensor([ours._ids(source)]), decoder_input_ids=fed, output_attentions=True)
            expected = torch.stack(about.cross_attentions)[:, 0]
        else:
            chat = ours._loaded.placed(ours._options.messages("en", "de", source, ()), "word")
            tokens = ours._loaded.spelled(target)
            fed = torch.tensor([[*chat.tokens, *tokens[:-1]]])
            shown = torch.stack(model(input_ids=fed, output_attentions=True).attentions)[:, 0]
            expected = shown[:, :, len(chat.tokens) - 1 :, chat.begin : chat.end]
    np.testing.assert_allclose(seen.weights, expected, atol=1e-5)
    assert seen.tokens[-1] == len(target) and len(seen.tokens) == len(tokens) == seen.weights.shape[2]
    assert max(seen.places) == len(source) and len(seen.places) == seen.weights.shape[3]
    assert (seen.places[-1] == -1) == (kind == "marian")  # <eos>
    with pytest.raises(SimulstError, match="but the model reads"):
        ours.seen(source, "die Katze " * 200)


@pytest.mark.parametrize("kind", ["llama", "marian"])
def test_the_command(kind: str, tmp_path: Path) -> None:
    cascade = tmp_path / "cascade.yaml"
    cascade.write_text(yaml.safe_dump({"recogniser": {"model": "x"}, "translator": translator(tmp_path, kind)}))
    (tmp_path / "pairs.json").write_text(json.dumps(PAIRS * 4))
    about = ["heads", "--model", str(cascade), "--source-lang", "en", "--target-lang", "de"]
    about += ["--alignments", str(tmp_path / "pairs.json"), "--count", "2"]
    ran = CliRunner().invoke(models, about, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    assert "of 4 pairs attend most to an aligned place" in ran.output and "halves: " in ran.output
    assert "left out: 4 pairs" in ran.output  # no token spells ß
    found = json.loads((tmp_path / "m/alignment_heads.json").read_text())
    assert len(found["heads"]) == 2 and found["scores"] == sorted(found["scores"], reverse=True)
    assert [list(pair) for pair in heads_beside(tmp_path / "m", 2, 2)] == found["heads"]
    opened: Any = open_translator(cascade, "en", "de")[0]
    used = opened._loaded.heads if kind == "llama" else opened._parts.alignment_heads
    assert [list(pair) for pair in used] == found["heads"]
    (tmp_path / "en").write_text("the cat\n" * 20)
    (tmp_path / "de").write_text("die Katze\n" * 20)
    texts = ["--source", str(tmp_path / "en"), "--target", str(tmp_path / "de"), "--pairs", "5"]
    here = [*about[:-4], *about[-2:], *texts]
    ran = CliRunner().invoke(models, here, catch_exceptions=False)
    assert ran.exit_code == 0 and "of 5 pairs attend" in ran.output, ran.output
    for wrong in (["--source", str(cascade)], ["--alignments", str(cascade)]):
        with pytest.raises(SimulstError, match="stands with --source and --target"):
            CliRunner().invoke(models, [*about, *wrong], catch_exceptions=False, standalone_mode=False)


@given(st.permutations(range(6)))
def test_the_order_of_pairs_changes_no_score(order: list[int]) -> None:
    def seen(source: str, target: str) -> Seen:
        weights = np.random.default_rng(ord(source[0])).random((2, 3, len(target), len(source)))
        return Seen(weights, range(1, len(source) + 1), range(1, len(target) + 1))

    spans = [(number, number + 1) for number in range(3)]
    links = [(number, number) for number in range(3)]
    pairs = [Aligned(chr(97 + n) + "yz", "xyz", spans, spans, links) for n in range(6)]
    one, other = rank(seen, pairs, 3), rank(seen, [pairs[n] for n in order], 3)
    assert (one.heads, one.scores, one.mean) == (other.heads, other.scores, other.mean)


@pytest.mark.parametrize("kind", ["whisper", "espnet"])
def test_speech(kind: str, tmp_path: Path) -> None:
    """Attention is that of the session's own search. A word ends at the last token that belongs to it."""
    samples, folder = tiny_huggingface.noise(1.0), tmp_path / "m"
    said = "the cat sat" if kind == "whisper" else tiny_pieces.TEXT.split("\n")[0]
    if kind == "whisper":
        tiny_huggingface.write(folder, kind)
    else:
        tiny_espnet.write(tmp_path / "e")
        folder = tmp_path / "e/exp/st"
    soundfile.write(tmp_path / "one.wav", samples, 16000)
    soundfile.write(tmp_path / "two.wav", samples[::-1], 16000)
    lines = [f"{name} 1 0.{2 * n} 0.2 {word}" for name in ("one", "two") for n, word in enumerate(said.split())]
    (tmp_path / "words.ctm").write_text("\n".join(lines))
    about = ["heads", "--model", str(folder), "--source-lang", "en", "--target-lang", "en", "--count", "2"]
    about += ["--times", str(tmp_path / "words.ctm"), "--audio", str(tmp_path)]
    if kind == "whisper":  # a data directory, too
        for table, value in (("wav.scp", "{}.wav"), ("utt2spk", "s"), ("text.en", said)):
            (tmp_path / table).write_text("".join(f"{name} {value.format(name)}\n" for name in ("one", "two")))
    ran = CliRunner().invoke(models, about, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    found = json.loads((folder / "alignment_heads.json").read_text())
    model: Any = load_model(folder)
    used = model.alignment_heads if kind == "espnet" else model.architecture.alignment_heads
    assert [list(pair) for pair in used] == found["heads"] and found["pairs"] == 2
    pairs = spoken_pairs({"one": [(0.2, " the"), (0.4, " cat")]}, tmp_path)
    assert pairs == [
        Aligned(str(tmp_path / "one.wav"), "the cat", [(0, 200), (200, 400)], [(0, 3), (4, 7)], [(0, 0), (1, 1)])
    ]
    seen = Spoken(model, ("en", "en")).seen(str(tmp_path / "one.wav"), said)
    assert seen.weights.shape[2:] == (len(seen.tokens), len(seen.places)) and seen.places[-1] == 1000
    assert seen.tokens[-1] == len(said)
    if kind == "whisper":
        session = model.session(Opening("en", "en"))
        session.extend(load_audio(tmp_path / "one.wav"), True)
        tokens = session.spell(said)
        session.end_times(tokens)
        decoder = SteppedDecoder(model.architecture.model, session._prompt(), heard=session._encoded.heard)
        memory = decoder.memory()
        memory.append(session._encoded.frames)
        np.testing.assert_allclose(np.concatenate(seen.weights), decoder.spoken(tokens, memory), atol=1e-5)
    parts = {"a": (tmp_path / "one.wav", 0.0, None), "b": (tmp_path / "one.wav", 0.05, None)}
    first, second = (Spoken(model, ("en", "en"), parts).seen(name, said) for name in parts)
    assert first.places == seen.places and second.places[-1] == 950
    with pytest.raises(SimulstError, match="has no recording 'three'"):
        spoken_pairs({"three": [(0.2, " the")]}, tmp_path)
