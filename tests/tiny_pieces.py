"""A tiny SentencePiece model."""

from __future__ import annotations

from pathlib import Path

import sentencepiece

TEXT = "der hund sieht die katze im garten\ndie alte frau hat einen kleinen hund\nheute geht der mann in den wald\n"


def train(folder: Path) -> sentencepiece.SentencePieceProcessor:
    """Write text, bpe.model and bpe.vocab."""
    (folder / "text").write_text(TEXT)
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "bpe"), vocab_size=40, model_type="unigram",
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "bpe.model"))
