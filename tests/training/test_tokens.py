"""Stage 3: token lists that ESPnet and SentencePiece agree on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import sentencepiece
import tiny_espnet
import torch

from simulst.errors import SimulstError
from simulst.training.new_model import learn_pieces
from simulst.training.tokens import extend_tokens, train_tokens

SENTENCES = [
    "der hund sieht die katze im garten",
    "die alte frau hat einen kleinen hund gekauft",
    "heute geht der mann in den wald , weil er holz braucht",
    "das kind weiß nicht , dass die katze schläft",
]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.tc.de"
    file.write_text("".join(f"u{i} {sentence}\n" for i, sentence in enumerate(SENTENCES * 3)))
    return file


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_the_list_is_the_models_with_espnets_own_symbols(text: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "tokens"
    train_tokens([text], out, 50, kind)
    tokens = (out / "tokens.txt").read_text().splitlines()
    assert len(tokens) == len(set(tokens))
    assert tokens[:2] == ["<blank>", "<unk>"] and tokens[-1] == "<sos/eos>"
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(out / "bpe.model"))
    for sentence in SENTENCES:
        encoded = pieces.encode(sentence, out_type=str)
        assert set(encoded) <= set(tokens)
        assert pieces.decode_pieces(encoded) == sentence
    if kind != "char":
        assert len(tokens) == 50
    assert sorted(path.name for path in out.iterdir()) == ["bpe.model", "bpe.vocab", "made_of.json", "tokens.txt"]


WIDE = ["你好，世界！", "他说：“我们（两个人）走吧；好吗？”", "½ café… １０\u00a0％", "ヴ\u3000カﾞ"]


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_text_is_spelled_as_it_is_but_for_its_spaces(tmp_path: Path, kind: str) -> None:
    text = tmp_path / "text.tc.zh"
    text.write_text("".join(f"u{i} {sentence}\n" for i, sentence in enumerate(WIDE)))
    train_tokens([text], tmp_path / "tokens", 39, kind)
    tokens = (tmp_path / "tokens/tokens.txt").read_text().splitlines()
    assert tokens == [token.rstrip() for token in tokens]  # as ESPnet reads them
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokens/bpe.model"))
    learnt = learn_pieces(WIDE, 100, ["<unk>"])
    for sentence in WIDE:
        plain = sentence.replace("\u00a0", " ").replace("\u3000", " ")
        assert pieces.decode(pieces.encode(sentence)) == plain
        assert learnt.decode(learnt.encode(sentence).ids) == plain


def test_symbols_are_never_split(text: Path, tmp_path: Path) -> None:
    train_tokens([text], tmp_path / "tokens", 50, symbols=["<2de>"])
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokens" / "bpe.model"))
    assert "<2de>" in pieces.encode("<2de> der hund", out_type=str)


def test_a_very_long_line_counts(tmp_path: Path) -> None:
    """SentencePiece leaves out lines above 4192 bytes unless it is told otherwise."""
    text = tmp_path / "text.en"
    text.write_text("u0 a b c\nu1 " + "zebra " * 1000 + "\n")
    train_tokens([text], tmp_path / "tokens", 10, "unigram")
    assert "z" in (tmp_path / "tokens/tokens.txt").read_text()


def test_tokens_of_something_else_are_refused(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_tokens([text], tmp_path / "tokens", 50)
    train_tokens([text], tmp_path / "tokens", 50)
    assert capsys.readouterr().out.endswith("tokens: complete; --force does it again\n")
    with pytest.raises(SimulstError, match=r"tokens: was begun with size 50, not 45; .* --force"):
        train_tokens([text], tmp_path / "tokens", 45)
    text.write_text(text.read_text().replace("katze", "kuh"))
    with pytest.raises(SimulstError, match="was begun with text "):
        train_tokens([text], tmp_path / "tokens", 50)
    train_tokens([text], tmp_path / "tokens", 45, force=True)
    assert len((tmp_path / "tokens" / "tokens.txt").read_text().splitlines()) == 45


def test_a_full_disk(text: Path, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(shutil.disk_usage(small_disk).free - 8_000))
    with pytest.raises(SimulstError, match=r"tokens(\.part)?: (SentencePiece could not write|cannot be written)"):
        train_tokens([text], small_disk / "tokens", 50)
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_tokens_are_added_to_a_model(tmp_path: Path) -> None:
    """They are never split, stand before <sos/eos>, and begin as copies of it."""
    tiny_espnet.write(tmp_path)
    old, weights = tmp_path / "data", tmp_path / "exp/st/3epoch.pth"
    extend_tokens(old, weights, tmp_path / "new", ["<wait>", "<lag1>"])
    tokens, before = ((folder / "tokens.txt").read_text().split("\n") for folder in (tmp_path / "new", old))
    assert tokens == [*before[:-2], "<wait>", "<lag1>", "<sos/eos>", ""]
    pieces = [
        sentencepiece.SentencePieceProcessor(model_file=str(folder / "bpe.model")) for folder in (tmp_path / "new", old)
    ]
    plain = "the cat sat on the mat"
    assert pieces[0].encode(plain, out_type=str) == pieces[1].encode(plain, out_type=str)
    cut = pieces[0].encode("<lag1> the cat<wait><wait> sat", out_type=str)
    assert cut[:2] == ["▁", "<lag1>"] and cut.count("<wait>") == 2 and "".join(cut).endswith("t<wait><wait>▁sat")
    one, other = (torch.load(path, weights_only=True) for path in (tmp_path / "new/begin.pth", weights))
    for name in ("decoder.embed.0.weight", "decoder.output_layer.bias", "st_ctc.ctc_lo.weight"):
        assert torch.equal(one[name][:-3], other[name][:-1]) and (one[name][-3:] == other[name][-1]).all()
    with pytest.raises(SimulstError, match="has the token '<wait>' already"):
        extend_tokens(tmp_path / "new", weights, tmp_path / "again", ["<wait>"])
    with pytest.raises(SimulstError, match=r"is no Transformer decoder's of the \d+ tokens"):
        extend_tokens(tmp_path / "new", weights, tmp_path / "again", ["<lag2>"])
    with pytest.raises(SimulstError, match="no such file; train that model first"):
        extend_tokens(old, tmp_path / "none.pth", tmp_path / "again", ["<lag2>"])
