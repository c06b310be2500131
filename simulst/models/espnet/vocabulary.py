"""The tokens of an ESPnet model: from token ids to text, and special tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulst.data.combine import TARGET
from simulst.errors import SimulstError
from simulst.languages import language_token
from simulst.models.espnet.experiment import Experiment
from simulst.search import Tokens

BLANK = 0  # of ESPnet's CTC layers
TYPES = ("bpe", "char", "word")


class Vocabulary:
    """All tokens of a model.

    tokens: the tokens, in order of their ids.
    kind: ESPnet's token_type.
    pieces: the SentencePiece model if kind is bpe, else None.
    sos: the name of the start token.
    eos: the name of the end token.
    """

    def __init__(self, tokens: Sequence[str], kind: str, pieces: Any, sos: str, eos: str) -> None:
        self.tokens = list(tokens)
        self.kind = kind
        self.pieces = pieces
        self.sos, self.eos = self._special(sos), self._special(eos)

    def __len__(self) -> int:
        return len(self.tokens)

    def text(self, tokens: Tokens) -> str:
        """Plain text. A word is complete if a space follows it. An incomplete character becomes U+FFFD."""
        pieces = [self.tokens[token] for token in tokens if token not in (BLANK, self.sos, self.eos)]
        if self.pieces is not None:
            return self.pieces.decode_pieces(pieces)
        if self.kind == "word":
            return "".join(piece + " " for piece in pieces)
        return "".join(pieces).replace("<space>", " ")

    def language_prefix(self, target: str) -> Tokens:
        """The tokens that every hypothesis in a language begins with and that are never written.

        In a multilingual model this is the language token. Other models have none.

        Raises SimulstError: a multilingual model that does not write this language.
        """
        written = [token for token in self.tokens if re.fullmatch(r"<2[A-Za-z]+>", token)]
        if not written:
            return ()
        if language_token(target) not in written or self.pieces is None:
            raise SimulstError(f"the model does not write '{target}'; it has {', '.join(t[2:-1] for t in written)}.")
        return tuple(self.tokens.index(piece) for piece in self.pieces.encode(language_token(target), out_type=str))

    def _special(self, token: str) -> int:
        return self.tokens.index(token) if token in self.tokens else len(self.tokens) - 1


def read_vocabulary(experiment: Experiment) -> Vocabulary:
    """The vocabulary of a trained model.

    Raises SimulstError: a kind of tokens that is not implemented; a missing SentencePiece model.
    """
    config = experiment.config
    kind = config.get("token_type")
    if kind not in TYPES:
        raise SimulstError(f"token_type: '{kind}' is not implemented; use {', '.join(TYPES[:-1])} or {TYPES[-1]}.")
    options = config.get("model_conf") or {}
    sos = options.get("tgt_sym_sos", options.get("sym_sos", "<sos/eos>"))
    eos = options.get("tgt_sym_eos", options.get("sym_eos", "<sos/eos>"))
    tokens = experiment.tokens()
    pieces = _sentencepiece(experiment, tokens) if kind == "bpe" else None
    return Vocabulary(tokens, kind, pieces, sos, eos)


def trained_languages(config: dict[str, Any]) -> tuple[str, str]:
    """The source and the target language that a model was trained for, from the names of its training texts.

    `text.tc.<language>` is the target text, `text.lc.rm.<language>` the source text. A language is "" if it is not
    known, or if there are several.
    """
    source = target = ""
    for path, name, *_ in config.get("train_data_path_and_name_and_type") or []:
        prefix, _, language = Path(str(path)).name.rpartition(".")
        if prefix == "text.tc" and name == "text" and language != TARGET:
            target = language
        elif prefix == "text.lc.rm":
            source = language
            target = language if name == "text" else target  # a recogniser
    return source, target


def _sentencepiece(experiment: Experiment, tokens: Sequence[str]) -> Any:
    """The SentencePiece model of these tokens.

    Raises SimulstError: the file is missing or broken, or belongs to another model.
    """
    from sentencepiece import SentencePieceProcessor

    name = experiment.config.get("bpemodel")
    if not name:
        raise SimulstError("config.yaml names no bpemodel, which token_type: bpe needs.")
    try:
        pieces = SentencePieceProcessor(model_proto=experiment.read(str(name)))
    except RuntimeError as error:
        raise SimulstError(f"{name} is not a SentencePiece model ({error}).") from error
    known = {pieces.id_to_piece(number) for number in range(pieces.get_piece_size())}
    strange = [token for token in tokens if token not in known and not re.fullmatch(r"<.+>", token)]
    if strange:
        raise SimulstError(
            f"{name} is not the SentencePiece model of these tokens: it has no '{strange[0]}' ({len(strange)} of "
            f"{len(tokens)} are missing); give the one that the model was trained with."
        )
    return pieces
