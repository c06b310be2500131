"""The files of a CTranslate2 Whisper: those that do not fit each other are refused, before any audio is decoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_whisper

from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.policy.commit import LocalAgreement
from simulst.policy.read import Chunk
from simulst.streams import open_stream


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"alignment_heads": [[25, 6]]}, "alignment_heads names head 6 of layer 25, but the decoder has 2 layers of 2"),
        ({"alignment_heads": [[0, 2]]}, "names head 2 of layer 0"),
        ({"alignment_heads": [[-1, 0]]}, "names head 0 of layer -1"),
        ({"alignment_heads": []}, "names no alignment_heads, by which times of tokens are found; convert"),
        ({"alignment_heads": None}, r"config\.json: alignment_heads: Input should be a valid list"),
        ({"suppress_ids": [60000]}, "suppress_ids names the token 60000"),
        ({"suppress_ids": [-5]}, "suppress_ids names the token -5"),
        ({"suppress_ids_begin": [60000]}, "suppress_ids_begin names the token 60000"),
        ({"lang_ids": [60000]}, "lang_ids names the token 60000"),
        ({"lang_ids": []}, r"config\.json names no languages \(lang_ids\); fetch"),
    ],
)
def test_a_configuration_of_another_model(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    """CTranslate2 would read beyond its arrays."""
    folder = tiny_whisper.write(tmp_path / "whisper")
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))
    with pytest.raises(SimulstError, match=words):
        load_model(folder)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_vocabulary_of_lines(tmp_path: Path, end: str) -> None:
    """As most published conversions have it; one that was copied by Windows has other line ends."""
    folder = tiny_whisper.write(tmp_path / "whisper")
    audio = np.random.default_rng(0).uniform(-0.3, 0.3, 48000).astype(np.float32)

    def texts() -> list[str]:
        stream = open_stream(load_model(folder), Decoding(Chunk(1000), LocalAgreement(2)), "es", "en")
        return [emission.text for emission in stream.push(audio, finished=True)]

    expected = texts()
    tokens = json.loads((folder / "vocabulary.json").read_text())
    (folder / "vocabulary.txt").write_bytes("".join(token.replace("\n", "\\n") + end for token in tokens).encode())
    (folder / "vocabulary.json").unlink()
    assert expected == texts()
