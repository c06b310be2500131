"""Stage 3: output units, by SentencePiece (unigram, BPE or characters), in ESPnet's token list."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from simulst.data.datadir import read_table
from simulst.errors import SimulstError

KINDS = ("unigram", "bpe", "char")


def train_tokens(
    texts: Sequence[Path], out: Path, size: int, kind: str = "unigram", symbols: Sequence[str] = ()
) -> int:
    """Write `out/{bpe.model,bpe.vocab,tokens.txt}`; returns the number of tokens in the list.

    texts: Kaldi text files (`<utterance> <sentence>`), all used. size: pieces asked for (`char`: not used).
    symbols: tokens that are never split, such as target-language tags.
    tokens.txt is ESPnet's list: `<blank>`, `<unk>`, the pieces, `<sos/eos>`.
    Raises SimulstError: a text that is missing or empty, or supports fewer pieces than asked for.
    """
    import sentencepiece

    if kind not in KINDS:
        raise SimulstError(f"token kind '{kind}' is not known; choose from {', '.join(KINDS)}.")
    sentences = [line for path in texts for line in read_table(path, allow_empty=True).values() if line]
    names = ", ".join(map(str, texts))
    if not sentences:
        raise SimulstError(f"{names}: no text to learn tokens from; run stage 1 again.")
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    options = {} if kind == "char" else {"vocab_size": size}
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_prefix=str(part / "bpe"),
            model_type=kind,
            character_coverage=1.0,
            user_defined_symbols=list(symbols),
            hard_vocab_limit=kind != "char",
            minloglevel=2,
            **options,
        )
    except RuntimeError as error:
        if least := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
            hint = f"as it has {least[1]} characters; ask for more than these"
            raise SimulstError(f"{names}: {size} {kind} pieces are too few, {hint}.") from error
        most = re.search(r"<= (\d+)", str(error))
        hint = f"{most[1]} at most" if most else "fewer"
        raise SimulstError(f"{names}: the text does not support {size} {kind} pieces; ask for {hint}.") from error
    processor = sentencepiece.SentencePieceProcessor(model_file=str(part / "bpe.model"))
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    pieces = [piece for piece in pieces if piece not in ("<unk>", "<s>", "</s>")]
    tokens = ["<blank>", "<unk>", *pieces, "<sos/eos>"]
    (part / "tokens.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    part.replace(out)
    return len(tokens)
