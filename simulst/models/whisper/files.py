"""The files of a CTranslate2 Whisper, checked when they are read."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulst.errors import SimulstError
from simulst.models.ctranslate2_file import read_variables
from simulst.options import read_fields

VOCABULARY, VOCABULARY_LINES = "vocabulary.json", "vocabulary.txt"
FILES = ("model.bin", VOCABULARY, "tokenizer.json", "config.json")
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
    config = read_json(path / "config.json")
    return read_fields(Config, config, f"{path}: config.json is broken", "fetch the model again")


def read_vocabulary(path: Path) -> list[str]:
    """The tokens, in order: vocabulary.json or, in older models, vocabulary.txt with a token a line."""
    if (path / VOCABULARY).is_file():
        tokens = read_json(path / VOCABULARY)
        if not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
            raise SimulstError(f"{path}: {VOCABULARY} is broken (it is another file); fetch the model again.")
        return tokens
    try:
        return (path / VOCABULARY_LINES).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise SimulstError(f"{path}: {VOCABULARY_LINES} is broken ({error}); fetch the model again.") from error


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not JSON, or not even text
        raise SimulstError(f"{path.parent}: {path.name} is broken ({error}); fetch the model again.") from error
