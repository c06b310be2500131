"""The files of a CTranslate2 Whisper, checked when they are read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from simulst.errors import SimulstError
from simulst.files.text import lines_of
from simulst.languages import code_of
from simulst.models.ctranslate2_library import read_variables
from simulst.models.whisper.prompts import ENGLISH_VOCABULARY, Languages
from simulst.options import read_json_fields

VOCABULARY, VOCABULARY_LINES = "vocabulary.json", "vocabulary.txt"
FILES = ("model.bin", VOCABULARY, "tokenizer.json", "config.json")
AGAIN = "fetch the model again"
_LAYER = re.compile(r"decoder/layer_\d+/ffn/linear_0/weight")


@dataclass
class Config:
    """What is used here of config.json, by us and by CTranslate2.

    lang_ids: the tokens of the languages.
    alignment_heads: layers and heads that show when a token was spoken.
    suppress_ids, suppress_ids_begin: tokens that no text has, and that none begins with.
    """

    lang_ids: list[int]
    alignment_heads: list[tuple[int, int]] = field(default_factory=list)
    suppress_ids: list[int] = field(default_factory=list)
    suppress_ids_begin: list[int] = field(default_factory=list)

    def check(self, path: Path) -> None:
        """Raise SimulstError unless it fits model.bin: CTranslate2 reads beyond its arrays."""
        variables = read_variables(path / "model.bin")
        heads = int(variables.get("decoder/num_heads", variables["encoder/num_heads"]))
        layers = sum(bool(_LAYER.fullmatch(name)) for name in variables)
        size = len(variables["decoder/embeddings/weight"])
        if not self.alignment_heads:
            raise SimulstError(
                f"{path}: config.json names no alignment_heads, by which times of tokens are found; convert the model "
                "again with a newer CTranslate2, or copy them from the generation_config.json of the original model."
            )
        for layer, head in self.alignment_heads:
            if not (0 <= layer < layers and 0 <= head < heads):
                raise SimulstError(
                    f"{path}: config.json does not fit model.bin: alignment_heads names head {head} of layer {layer}, "
                    f"but the decoder has {layers} layers of {heads} heads; copy both from one model."
                )
        for name in ("lang_ids", "suppress_ids", "suppress_ids_begin"):
            if beyond := [token for token in getattr(self, name) if not 0 <= token < size]:
                raise SimulstError(
                    f"{path}: config.json does not fit model.bin: {name} names the token {beyond[0]}, but there are "
                    f"{size} tokens; copy both from one model."
                )


def read_config(path: Path) -> Config:
    """What config.json says. Raises SimulstError: it is broken."""
    return read_json_fields(Config, path / "config.json", AGAIN)


def languages_of(path: Path, vocabulary: list[str], config: Config, other_targets: bool) -> Languages:
    """What a model of this vocabulary hears and writes. path: of the model, for errors.

    Raises SimulstError: it is not of English alone, and config.json names no languages.
    """
    names = {token: vocabulary[token].strip("<|>") for token in config.lang_ids if 0 <= token < len(vocabulary)}
    english = len(vocabulary) == ENGLISH_VOCABULARY
    if not (english or config.lang_ids):
        raise SimulstError(f"{path}: config.json names no languages (lang_ids); {AGAIN}.")
    return Languages(path, {} if english else {code_of(name): token for token, name in names.items()}, other_targets)


def read_vocabulary(path: Path) -> list[str]:
    """The tokens, in order: vocabulary.json or, in older models, vocabulary.txt with a token a line."""
    if (path / VOCABULARY).is_file():
        return read_json_fields(list[str], path / VOCABULARY, AGAIN)
    return [line.removesuffix("\r") for line in lines_of(path / VOCABULARY_LINES, AGAIN)]
