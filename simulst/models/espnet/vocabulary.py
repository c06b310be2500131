"""The tokens of an ESPnet model: from token ids to text, and special tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.hypotheses import WAIT, Tokens, lag_token
from simulst.languages import MULTI, language_token
from simulst.models.espnet.experiment import Experiment

BLANK = 0  # of ESPnet's CTC layers
WORD_BEGIN = "\u2581"  # SentencePiece's
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
        self.wait = self.tokens.index(WAIT) if WAIT in self.tokens else None
        """The wait token; None: the model learnt none."""
        self._lag_tokens = frozenset(n for n, token in enumerate(tokens) if re.fullmatch(r"<lag\d+>", token))
        self.unspoken = self._lag_tokens | (frozenset() if self.wait is None else {self.wait})
        """The tokens that a CTC layer does not know."""
        self._unwritten = frozenset({BLANK, self.sos, self.eos, *self.unspoken})  # in no text
        self._languages = [token for token in tokens if re.fullmatch(r"<2[A-Za-z]+>", token)]
        unknown = (n for n, token in enumerate(tokens) if token in ("<unk>", "<UNK>"))
        strange = {*self._unwritten, *unknown}
        self._numbers = {token: n for n, token in enumerate(tokens) if n not in strange}  # that text is made of
        self._spelled = lru_cache(maxsize=10_000)(self._spell_word)  # a CTC guide is asked about each word many times

    def __len__(self) -> int:
        return len(self.tokens)

    def text(self, tokens: Tokens) -> str:
        """Plain text. A word is complete if a space follows it. An incomplete character becomes U+FFFD."""
        pieces = [self.tokens[token] for token in tokens if token not in self._unwritten]
        if self.pieces is not None:
            return self.pieces.decode_pieces(pieces)
        if self.kind == "word":
            return "".join(piece + " " for piece in pieces)
        return "".join(pieces).replace("<space>", " ")

    def spell(self, text: str) -> Tokens:
        """A text in these tokens, as training spells it. What there are no tokens for is left out.

        A word that can't be spelled as it stands is tried in lower and in upper case.
        """
        spelled: list[Tokens] = [word for word in map(self._spelled, text.split()) if word]
        if self.kind == "char" and "<space>" in self._numbers:
            space = (self._numbers["<space>"],)
            spelled = [*spelled[:1], *(space + word for word in spelled[1:])]
        return tuple(token for word in spelled for token in word)

    def language_prefix(self, target: str) -> Tokens:
        """The tokens that every hypothesis in a language begins with and that are never written.

        In a multilingual model this is the language token. Other models have none.

        Raises SimulstError: a multilingual model that does not write this language.
        """
        if not self._languages:
            return ()
        if language_token(target) not in self._languages or self.pieces is None:
            written = ", ".join(token[2:-1] for token in self._languages)
            raise SimulstError(f"the model does not write '{target}'; it has {written}.")
        return tuple(self.tokens.index(piece) for piece in self.pieces.encode(language_token(target), out_type=str))

    @cached_property
    def lags(self) -> dict[int, Tokens]:
        """Lag → the tokens that a text with this lag begins with and that are never written."""
        found = sorted(int(self.tokens[n][4:-1]) for n in self._lag_tokens)
        pieces = {lag: self.pieces.encode(lag_token(lag), out_type=str) for lag in found} if self.pieces else {}
        return {lag: tuple(self.tokens.index(piece) for piece in spelled) for lag, spelled in pieces.items()}

    def spoken(self, tokens: Tokens) -> Tokens:
        """A text without wait tokens, and without that with which it tells its lag. CTC layers know none of them."""
        begins = max((place + 1 for place, token in enumerate(tokens) if token in self._lag_tokens), default=0)
        return tuple(token for token in tokens[begins:] if token != self.wait)

    def _spell_word(self, word: str) -> Tokens:
        """The tokens of what can be spelled of a word; none if that is nothing."""
        ways = [self._pieces_of(way) for way in (word, word.lower(), word.upper())]
        known = [[piece for piece in pieces if piece in self._numbers] for pieces in ways]
        most = max(range(len(ways)), key=lambda way: (known[way] == ways[way], sum(map(len, known[way]))))
        if not "".join(known[most]).strip(WORD_BEGIN):
            return ()
        return tuple(self._numbers[piece] for piece in known[most])

    def _pieces_of(self, word: str) -> list[str]:
        if self.pieces is not None:
            return self.pieces.encode(word, out_type=str)
        return [word] if self.kind == "word" else list(word)

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


def check_trained(path: Path, trained: tuple[str, str], source: str, target: str) -> None:
    """Raise SimulstError if a model was trained to hear or write another language. path: of the model, for errors."""
    for wanted, known, what in ((source, trained[0], "hear"), (target, trained[1], "write")):
        if known and wanted != known:
            raise SimulstError(f"{path}: the model was trained to {what} '{known}', not '{wanted}'; give '{known}'.")


def trained_languages(config: dict[str, Any]) -> tuple[str, str]:
    """The source and the target language that a model was trained for, from the names of its training texts.

    `text.tc.<language>` is the target text, `text.lc.rm.<language>` the source text. A language is "" if it is not
    known, or if there are several.
    """
    source = target = ""
    for path, name, *_ in config.get("train_data_path_and_name_and_type") or []:
        prefix, _, language = Path(str(path)).name.rpartition(".")
        if prefix == "text.tc" and name == "text" and language != MULTI:
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
