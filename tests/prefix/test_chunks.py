"""Chunk-aligned data against a slow version; times of words against all CTC paths; what is wrong with the inputs."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import sounds
import tiny_espnet
import tiny_huggingface
import tiny_speech_llm
import torch
from fake import FakeModel
from hypothesis import given
from hypothesis import strategies as st

from simulst.audio.read import load_audio
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.models.espnet.model import ESPnet
from simulst.opening import Opening
from simulst.prefix.chunks import Aligned, Grid, from_prefixes, from_times, place, read_ends, write_chunks
from simulst.prefix.times import best_frames, by_attention, by_ctc, write_times

TEXTS = {"a": "Das ist ein Haus.", "b": "Ja. Nein. Doch.", "c": "Gut."}
SECONDS = {"a": 4.0, "b": 2.5, "c": 0.9}
GRID = Grid(1000, 500)


def slowly(times: list[float | None], ends: list[float], lag: int) -> list[int]:
    """By definition: a chunk is good for a word if, `lag` chunks before, all was heard that the words so far need."""
    chunks = []
    for number in range(len(times)):
        following = [time for time in times[number:] if time is not None][:1] or [math.inf]
        needed = max([time for time in times[:number] if time is not None] + following)
        good = [c for c in range(len(ends)) if c >= lag and ends[c - lag] >= needed]
        chunks.append(min([*good, len(ends)]))
    return chunks


@given(
    st.lists(st.none() | st.integers(0, 50).map(lambda n: n * 100.0), max_size=8),
    st.integers(1, 50),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 4),
)
def test_labels_are_those_of_a_slow_version(
    times: list[float | None], total: int, first: int, step: int, lag: int
) -> None:
    ends = Grid(first * 100, step * 100).ends(total * 100)
    chunks = place(times, ends, lag)
    assert chunks == slowly(times, ends, lag)
    assert chunks == sorted(chunks) and all(lag <= chunk or chunk == len(ends) for chunk in chunks)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    audio = {name: np.zeros(int(seconds * 16000), dtype=np.float32) for name, seconds in SECONDS.items()}
    heard = {name: f"heard {name}" for name in TEXTS}
    return sounds.write(tmp_path / "data", audio, {"tc.de": TEXTS, "lc.rm.en": heard})


def test_three_ways_to_align(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [{"frames": 100, "text": "Das ist"}, {"frames": 200, "text": "Das ist ein"}]
    line = {"utterance": "a", "tau": 100, "frames": 400, "offline": "Das ist ein Haus.", "pairs": pairs}
    (tmp_path / "prefixes.jsonl").write_text(json.dumps(line) + "\n")
    by_pairs = from_prefixes(tmp_path / "prefixes.jsonl", "de")
    assert by_pairs["a"].times == [1000, 1000, 2000, None]
    (tmp_path / "target.ctm").write_text("".join(f"a 1 {i} 0.75 w{i}\n" for i in range(4)))
    assert from_times(tmp_path / "target.ctm", TEXTS, "de")["a"].times == [750, 1750, 2750, 3750]
    (tmp_path / "source.ctm").write_text("a 1 0 1 that\na 1 1 1 house\na 1 2 1 is\nb 1 0 0.5 yes\n")
    (tmp_path / "links").write_text("a 0-0 1-3 0-1 2-1\nb\n")
    by_links = from_times(tmp_path / "source.ctm", TEXTS, "de", tmp_path / "links")
    assert by_links["a"].times == [1000, 3000, None, 2000] and by_links["b"].times == [None] * 3
    text = "Das<wait><wait><wait><wait> ist ein Haus.<wait><wait>"
    for lag in (0, 1):
        write_chunks(data, by_links, tmp_path / "out", "de", GRID, [lag], force=True)
        [written] = read_data_dir(tmp_path / "out", "de")
        assert written.reference == (f"<lag0> {text}" if lag == 0 else f"<lag1><wait> {text.removesuffix('<wait>')}")
    assert (tmp_path / "out/text.lc.rm.en").read_text() == "a heard a\n"
    first = json.loads((tmp_path / "out/chunks.jsonl").read_text().splitlines()[0])
    assert [chunk["ms"] for chunk in first["chunks"]] == [*GRID.ends(4000), 4000] and len(first["chunks"]) == 7
    assert first["chunks"][5]["text"] == "ist ein Haus."
    (tmp_path / "source.ctm").write_text("a 1 0 1 this\na 1 1 1 house\na 1 2 1 is\nb 1 0 0.5 yes\n")
    others = from_times(tmp_path / "source.ctm", TEXTS, "de", tmp_path / "links")
    with pytest.raises(SimulstError, match=r"out: was begun with data .* or use --force"):
        write_chunks(data, others, tmp_path / "out", "de", GRID, [1])
    said = capsys.readouterr().out
    assert "1 utterances, 2 left out without times" in said
    assert "lag 1: 1 utterances, 4 words: 75% have times, 100% go out before the end; LAAL 1500 ms" in said


def test_languages_without_spaces(data: Path, tmp_path: Path) -> None:
    """Characters; and utterances have the lags in turn."""
    aligned = {name: Aligned(["我", " 好", "。"], [100.0, 1200.0, 2000.0]) for name in "ab"}
    write_chunks(data, {"a": aligned["a"], "b": aligned["b"]}, tmp_path / "out", "de", GRID, [1, 0])
    texts = {one.name: one.reference for one in read_data_dir(tmp_path / "out", "de")}
    assert texts["a"].startswith("<lag1><wait>我") and texts["b"].startswith("<lag0>我<wait>")


def test_times_are_of_the_best_path() -> None:
    """Against all paths of tiny posteriors."""
    for seed in range(20):
        log_probs = torch.log_softmax(3 * torch.randn(5, 3, generator=torch.manual_seed(seed)), -1)
        tokens = [[1, 2], [1, 1], [2]][seed % 3]
        paths = [
            p for p in itertools.product(range(3), repeat=5) if [k for k, _ in itertools.groupby(p) if k] == tokens
        ]
        best = max(paths, key=lambda path: sum(float(log_probs[t, k]) for t, k in enumerate(path)))
        ends, at = [], 0
        for label, run in itertools.groupby(best):
            at += len(list(run))
            ends += [at - 1] if label else []
        assert best_frames(log_probs, tokens) == ends
    assert best_frames(log_probs[:2], [1, 1]) is None and best_frames(log_probs, []) is None


def test_a_model_finds_times(data: Path, tmp_path: Path) -> None:
    tiny_espnet.write(tmp_path / "model")
    model, out = load_model(tmp_path / "model/exp/st"), tmp_path / "times.ctm"
    assert isinstance(model, ESPnet)
    (data / "text.tc.de").write_text("a Das Haus\nb Haus\nc \n")
    write_times(by_ctc(model), data, out, "de")
    found = read_ends(out)
    assert {name: len(times) for name, times in found.items()} == {"a": 2, "b": 1}
    assert all(0 < time <= SECONDS[name] * 1000 + 1 for name, times in found.items() for time in times)
    (data / "text.tc.de").write_text("a \nb \nc \n")
    with pytest.raises(SimulstError, match="can align no reference"):
        write_times(by_ctc(model), data, out, "de")


@pytest.mark.parametrize("kind", ["whisper", "speech_to_text", "qwen2_audio"])
def test_times_by_attention(kind: str, data: Path, tmp_path: Path) -> None:
    """Each word's time is that of its last token on the path through its attention, by definition."""
    maker = tiny_speech_llm if kind == "qwen2_audio" else tiny_huggingface
    model: Any = load_model(maker.write(tmp_path / kind, kind), threads=1, other_targets=True)
    text = "der Hund und die Katze"
    soundfile.write(data / "a.wav", tiny_huggingface.noise(4.0), 16000)
    (data / "text.tc.es").write_text(f"a {text}\nb {text}\nc \n")
    (data / "text.tc.de").write_text(f"a {text}\nb {text}\nc \n")
    target = "es" if kind == "whisper" else "de"
    write_times(by_attention(model, kind, "en", target), data, tmp_path / "times.ctm", target)
    found = read_ends(tmp_path / "times.ctm")
    assert {name: len(times) for name, times in found.items()} == {"a": 5, "b": 5}
    session = model.session(Opening("en", target))
    session.extend(load_audio(data / "a.wav"), True)
    tokens, count = session.spell(text), 0
    times = session.end_times(tokens)
    assert times == sorted(times) and times[-1] <= 4.1
    for word, end in zip(text.split(), found["a"], strict=True):
        while word not in session.text(tokens[:count]).split():
            count += 1
        assert end == pytest.approx(times[count - 1] * 1000, abs=1)
    with pytest.raises(SimulstError, match="fake: the model knows no times of words"):
        by_attention(FakeModel(), "fake", "es", "fr")


def test_bad_input(data: Path, tmp_path: Path) -> None:
    aligned = {"a": Aligned([" Das"], [3900.0])}

    def write(found: dict[str, Aligned], lags: list[int]) -> None:
        write_chunks(data, found, tmp_path / "out", "de", GRID, lags)

    with pytest.raises(SimulstError, match="none of its 3 utterances is aligned"):
        write({"a": Aligned([" Das"], [None]), "z": Aligned([" Das"], [1.0])}, [0])
    with pytest.raises(SimulstError, match="--lags 1: no utterance has a word before its end"):
        write({"a": Aligned([" Das"], [3500.0]), "b": Aligned([" Ja"], [2400.0])}, [1])
    for lags in ([], [-1], [1, 1]):
        with pytest.raises(SimulstError, match="give different numbers of chunks, 0 or more"):
            write(aligned, lags)
    with pytest.raises(SimulstError, match="the text of 'a' has one of the tokens"):
        write({"a": Aligned([" <wait>"], [1.0])}, [0])
    with pytest.raises(SimulstError, match="a chunk needs a positive length"):
        Grid(0, 640)
    (tmp_path / "t").write_text("a 1 0 0.5 w\n")
    with pytest.raises(SimulstError, match="'a' has times of 1 words, but 4 in its text"):
        from_times(tmp_path / "t", TEXTS, "de")
    for link in ("4-0", "0-4", "0:0"):
        (tmp_path / "l").write_text(f"a {link}\n")
        with pytest.raises(SimulstError, match=f"'a' has the link '{link}', but 1 source and 4 target words"):
            from_times(tmp_path / "t", TEXTS, "de", tmp_path / "l")
    (tmp_path / "t").write_text("a 1 x 0.5 w\n")
    with pytest.raises(SimulstError, match=r"line 1: .* is not '<utterance> <channel>"):
        read_ends(tmp_path / "t")
    for time in ("nan", "inf", "-9"):
        (tmp_path / "t").write_text(f";; a comment\na 1 {time} 0.5 w\n")
        with pytest.raises(SimulstError, match="line 2: no times"):
            read_ends(tmp_path / "t")
    with pytest.raises(SimulstError, match="no such file"):
        read_ends(tmp_path / "none")
