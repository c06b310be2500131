"""Learn output units with SentencePiece (unigram, BPE or characters), and write ESPnet's token list."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from simulst.errors import SimulstError
from simulst.files.folder import digest, digest_of_file, written_whole
from simulst.files.table import read_table

KINDS = ("unigram", "bpe", "char")
BY = "(--size; in recipes --pieces, for the source --source-pieces, for tokens of both --prefix-pieces)"
SPACES = [character for character in map(chr, range(sys.maxunicode + 1)) if character.isspace() and character != " "]
"""All that ESPnet strips from the ends of tokens. They become plain spaces."""


def train_tokens(
    texts: Sequence[Path],
    out: Path,
    size: int,
    kind: str = "unigram",
    symbols: Sequence[str] = (),
    force: bool = False,
) -> None:
    """Write `out/{bpe.model,bpe.vocab,tokens.txt}`, if they are not there yet.

    tokens.txt is ESPnet's list: `<blank>`, `<unk>`, the pieces, `<sos/eos>`. The tokens spell a text as it is, apart
    from spaces: SentencePiece's NFKC would write ASCII for the full-width punctuation of Chinese and Japanese.

    texts: Kaldi text files (`<utterance> <sentence>`); all of them are used.
    size: number of pieces; not used if `kind` is "char".
    kind: "unigram", "bpe" or "char".
    symbols: tokens that are never split, such as target-language tags.
    force: learn the tokens again.

    Raises SimulstError: a text is missing or empty; the texts support fewer pieces; what `written_whole` raises.
    """
    if kind not in KINDS:
        raise SimulstError(f"token kind '{kind}' is not known; choose from {', '.join(KINDS)}.")
    sentences = [line for path in texts for line in read_table(path, allow_empty=True).values() if line]
    if not sentences:
        raise SimulstError(f"{_names(texts)}: no text to learn tokens from; prepare the data again.")
    made_of = {"size": size, "kind": kind, "symbols": list(symbols), "text": digest(sentences)}
    with written_whole(out, made_of, force) as part:
        if part is not None:
            count = _learn(texts, sentences, part, size, kind, symbols)
            print(f"{out}: {count} tokens")


def _learn(
    texts: Sequence[Path], sentences: Sequence[str], out: Path, size: int, kind: str, symbols: Sequence[str]
) -> int:
    """Learn the tokens and write the files. Returns the number of tokens in the list."""
    import sentencepiece

    options = {} if kind == "char" else {"vocab_size": size}
    rules = out / "normalization.tsv"
    rules.write_text("".join(f"{ord(space):X}\t20\n" for space in SPACES))
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_prefix=str(out / "bpe"),
            model_type=kind,
            character_coverage=1.0,
            normalization_rule_tsv=str(rules),
            max_sentence_length=1 << 24,  # bytes; longer ones would be left out, with their characters
            user_defined_symbols=list(symbols),
            hard_vocab_limit=kind != "char",
            minloglevel=2,
            **options,
        )
    except RuntimeError as error:
        if least := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
            hint = f"as it has {least[1]} characters; ask for more than these {BY}"
            raise SimulstError(f"{_names(texts)}: {size} {kind} pieces are too few, {hint}.") from error
        if most := re.search(r"<= (\d+)", str(error)):
            hint = f"the text does not support {size} {kind} pieces; ask for {most[1]} at most {BY}"
            raise SimulstError(f"{_names(texts)}: {hint}.") from error
        raise SimulstError(f"{_names(texts)}: SentencePiece failed ({' '.join(str(error).split())}).") from error
    rules.unlink()  # they are part of the model
    try:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(out / "bpe.model"))
    except (OSError, RuntimeError) as error:  # the trainer does not report a full disk
        raise SimulstError(f"{out}: SentencePiece could not write its model there; is the disk full?") from error
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    pieces = [piece for piece in pieces if piece not in ("<unk>", "<s>", "</s>")]
    tokens = ["<blank>", "<unk>", *pieces, "<sos/eos>"]
    (out / "tokens.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    return len(tokens)


def extend_tokens(old: Path, weights: Path, out: Path, symbols: Sequence[str], force: bool = False) -> None:
    """Add tokens to those of a trained model. `out` has the files of `train_tokens`, and `begin.pth`, the weights.

    The new tokens are never split. They stand before `<sos/eos>`, and begin as copies of it: the model ends a text
    where it has no more to write.

    old: folder of the model's tokens.
    weights: of an ESPnet ST model with a Transformer decoder.

    Raises SimulstError: a file is missing or broken; a token is there already; the weights have other tokens.
    """
    import torch
    from sentencepiece import sentencepiece_model_pb2

    if missing := [path for path in (old / "bpe.model", old / "tokens.txt", weights) if not path.is_file()]:
        raise SimulstError(f"{missing[0]}: no such file; train that model first.")
    tokens = (old / "tokens.txt").read_text(encoding="utf-8").splitlines()
    if there := [symbol for symbol in symbols if symbol in tokens]:
        raise SimulstError(f"{old}: has the token '{there[0]}' already; name the tokens of a model without it.")
    made_of = {"symbols": list(symbols), "tokens": digest(tokens), "weights": digest_of_file(weights)}
    with written_whole(out, made_of, force) as part:
        if part is None:
            return
        pieces = sentencepiece_model_pb2.ModelProto.FromString((old / "bpe.model").read_bytes())
        for symbol in symbols:
            pieces.pieces.add(
                piece=symbol, score=0.0, type=sentencepiece_model_pb2.ModelProto.SentencePiece.USER_DEFINED
            )
        (part / "bpe.model").write_bytes(pieces.SerializeToString())
        more = [*tokens[:-1], *symbols, tokens[-1]]
        (part / "tokens.txt").write_text("".join(f"{token}\n" for token in more), encoding="utf-8")
        state = torch.load(weights, map_location="cpu", weights_only=True)
        grown = 0
        for name, rows in state.items():
            if name.startswith(_PER_TOKEN) and len(rows) == len(tokens):
                grown += 1
                state[name] = torch.cat([rows[:-1], rows[-1:].expand(len(symbols) + 1, *rows.shape[1:])])
        if grown < len(_PER_TOKEN) - 1:  # a model may have no CTC layer
            raise SimulstError(
                f"{weights}: is no Transformer decoder's of the {len(tokens)} tokens in {old}; name its own."
            )
        torch.save(state, part / "begin.pth")
        print(f"{out}: {len(more)} tokens")


_PER_TOKEN = ("decoder.embed.0.weight", "decoder.output_layer.weight", "decoder.output_layer.bias", "st_ctc.ctc_lo.")


def _names(texts: Sequence[Path]) -> str:
    return ", ".join(map(str, texts))
