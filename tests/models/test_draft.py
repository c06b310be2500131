"""Greedy search that scores a draft, in every family whose decoder does so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_espnet
import tiny_huggingface
import tiny_speech_llm
from fake import noted, pushed

from simulst.config import parse_decoding
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.search import beam
from simulst.streams import open_stream

AUDIO = np.concatenate([tiny_huggingface.noise(0.5, seed) * level for seed, level in enumerate((1.0, 0.3, 1.0))])
FAMILIES = ["conformer", "whisper", "canary", "qwen2_audio"]


def write(folder: Path, kind: str) -> Path:
    if kind == "conformer":
        tiny_espnet.write(folder, kind)
        return folder / "exp/st"
    if kind in tiny_huggingface.KINDS:
        return tiny_huggingface.write(folder, kind)
    return tiny_speech_llm.write(folder, kind)


def emitted(model: object, source: str, target: str, **search: object) -> list[tuple[str, float]]:
    decoding = parse_decoding(
        {
            "read": {"type": "chunk", "ms": 300},
            "commit": {"type": "local_agreement", "n": 2},
            "search": {"type": "joint_beam", "beam": 1, "ctc_weight": 0.0, **search},
        },
        "test",
    )
    return pushed(open_stream(model, decoding, source, target), AUDIO)


@pytest.mark.parametrize("kind", FAMILIES)
def test_words_and_times_are_those_without_a_draft(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drafts, steps = (noted(monkeypatch, beam, name, lambda *_: 1) for name in ("draft_step", "decoder_step"))
    model = load_model(str(write(tmp_path / kind, kind)), 1)
    languages = ("en", "de") if kind == "conformer" else ("es", "en")
    expected = emitted(model, *languages)
    without = len(steps)
    assert expected and not drafts
    assert emitted(model, *languages, draft=True) == expected
    assert drafts and len(steps) - without + len(drafts) <= without


def test_who_has_no_draft(tmp_path: Path) -> None:
    """Beams, recurrent decoders, and libraries' searches: CTranslate2 reads forced tokens one by one."""
    with pytest.raises(SimulstError, match=r"draft is for greedy search.*beam of 5"):
        emitted(None, "es", "en", beam=5, draft=True)
    tiny_espnet.write(tmp_path / "rnn", **tiny_espnet.VGG_BLSTM)
    parts = {"read": {"type": "chunk", "ms": 300}, "commit": {"type": "all"}}
    with pytest.raises(SimulstError, match="has no option 'draft'"):
        parse_decoding({**parts, "search": {"type": "beam", "beam": 1, "draft": True}}, "test")
    decoding = parse_decoding(
        {**parts, "search": {"type": "joint_beam", "ctc_weight": 0.0, "beam": 1, "draft": True}}, "test"
    )
    with pytest.raises(SimulstError, match=r"scores a draft of its text in one pass.*leave 'draft' out"):
        open_stream(load_model(str(tmp_path / "rnn/exp/st"), 1), decoding, "en", "de")
