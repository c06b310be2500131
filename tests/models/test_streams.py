"""A stream with silence and noise between its sentences, through every family: the words of each sentence alone."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import good
import numpy as np
import pytest
import speaker
import tiny_huggingface
import tiny_whisper
import torch
from fake import Loudness, cut_at_pauses, noted

from simulst.audio.units import SAMPLE_RATE
from simulst.audio.vad import CHUNK
from simulst.config import LIVE
from simulst.errors import SimulstError
from simulst.meter import Meter
from simulst.models import load_model
from simulst.models.huggingface.decoder import most_rows
from simulst.opening import Opening
from simulst.policy.commit import Hold
from simulst.policy.late import Wait
from simulst.policy.read import Chunk
from simulst.policy.segment import Attention, Pause, Whole
from simulst.search import BeamSearch, JointBeamSearch, SearchOptions, beam
from simulst.session import Model, Session
from simulst.stream import Stream
from simulst.streams import open_stream
from simulst.streams.driver import Driver
from simulst.streams.listening import BEFORE
from simulst.streams.pauses import LEAST_SPEECH

SAY = "The cat sat down. It was on the mat. Then the dog came in, and all was well."
PAUSE = 0.3
HOW = replace(LIVE, read=Chunk(700), segment=Pause(PAUSE), late=Wait())


def espnet(encoder: str, **options: Any) -> Callable[[Path], Model]:
    def made(folder: Path) -> Model:
        good.espnet(folder / "espnet", encoder)
        return load_model(folder / "espnet", threads=1, **options)

    return made


def whisper(folder: Path) -> Model:
    return tiny_whisper.load(tiny_whisper.write(folder / "whisper", eos=6))


def huggingface(folder: Path) -> Model:
    return load_model(tiny_huggingface.write(folder / "huggingface", "whisper"), threads=1)


def cascade(folder: Path) -> Model:
    return load_model(speaker.write(folder, {"type": "program:Program", "command": "tr a-z A-Z"}, SAY))


GREEDY = JointBeamSearch(1, ctc_weight=0.0, max_length_ratio=0.2)
FAMILIES: dict[str, tuple[Callable[[Path], Model], str, str, SearchOptions | None]] = {
    "blockwise": (espnet("contextual_block_transformer"), "en", "de", GREEDY),
    "full context": (espnet("transformer"), "en", "de", GREEDY),
    "whisper": (whisper, "es", "en", BeamSearch(2)),
    "huggingface": (huggingface, "es", "en", replace(GREEDY, max_length_ratio=0.05)),  # of 50 frames a second
    "cascade": (cascade, "en", "es", None),
}


def gone(session: Any) -> int:
    """Samples that have left its window."""
    if hasattr(session, "_offset"):
        return session._offset
    parts = session._encoding.parts
    return parts[0].first * 640 if parts else 0  # samples of a frame


def talk() -> tuple[np.ndarray, int]:
    """Sentences, with silence and with soft noise between them; and how many there are."""
    chance = np.random.default_rng(5)
    sentences = (1.3, 1.6, 0.9)
    parts = []
    for i, seconds in enumerate(sentences):
        parts.append(chance.uniform(-0.005, 0.005, SAMPLE_RATE) * (i % 2))
        parts.append(chance.uniform(-0.3, 0.3, round(seconds * SAMPLE_RATE)))
    return np.concatenate([*parts, np.zeros(SAMPLE_RATE)]).astype(np.float32), len(sentences)


@pytest.mark.parametrize("family", FAMILIES)
def test_sentences_in_a_stream(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)
    build, source, target, search = FAMILIES[family]
    how = replace(HOW, search=search)
    model = build(tmp_path)
    opened: list[weakref.ref[Session]] = []

    def session(meter: Meter, history: str) -> Session:
        new = model.session(Opening(source, target, meter, history=history, restarts=how.segment.restart))
        opened.append(weakref.ref(new))
        return new

    stream = cut_at_pauses(session, how)
    audio, count = talk()
    for start in range(0, audio.size, 4000):
        stream.push(audio[start : start + 4000])
        pending = 0 if stream._part is None else stream._part._pending.size
        assert stream._audio.size + pending <= 4000 + (PAUSE + 0.7) * SAMPLE_RATE + 2 * CHUNK + BEFORE + LEAST_SPEECH
    stream.push(audio[:0], finished=True)
    assert len(stream.segments) == count
    gc.collect()
    assert not any(one() is not None for one in opened), "no sentence is kept in memory"
    expected: list[str] = []
    for begin, end in stream.segments:
        alone = Stream(model.session(Opening(source, target)), replace(how, segment=Whole()))
        alone.push(audio[round(begin * 16) : round(end * 16)], finished=True)
        expected += [word.text.strip() for word in alone.emissions]
    assert [word.text.strip() for word in stream.emissions] == expected
    assert expected
    wait = (PAUSE * SAMPLE_RATE + CHUNK) / 16
    for word in stream.emissions:
        assert any(begin < word.delay_ms <= end + wait for begin, end in stream.segments), "no text in silence"


CALLS = {
    "blockwise": {"encode_blocks", "decoder_step"},
    "full context": {"encode_all", "decoder_step"},
    "whisper": {"encode_together", "generate", "align"},
    "huggingface": {"encode_together", "decoder_step"},
    "cascade": {"search"},
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precisions_together(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a processor, scores have the same bits as alone; ESPnet's models are tried in test_decoder.py."""
    monkeypatch.setattr("simulst.models.huggingface.decoder.is_fast", lambda precision: True)
    model = load_model(tiny_huggingface.write(tmp_path / "huggingface", "whisper"), threads=1, dtype=dtype)
    how = replace(HOW, search=FAMILIES["huggingface"][3], segment=Whole())
    rows = noted(monkeypatch, beam, "decoder_step", lambda steps: sum(len(step.tokens) for step in steps))
    audios = [talk()[0][start : start + 24000] for start in range(0, 18000, 3000)]
    streams: list[list[Any]] = [[open_stream(model, how, "es", "en") for _ in audios] for _ in range(2)]
    driver = Driver(math.inf)
    for alone, beside, audio in zip(*streams, audios, strict=True):
        alone.push(audio, finished=True)
        driver.push(beside, audio, True)
    rows.clear()
    driver.finish()
    for alone, beside in zip(*streams, strict=True):
        assert beside._beams == alone._beams and alone._beams
    assert 5 < max(rows) <= 16
    encoding: Any = next(open_stream(model, how, "es", "en").push_steps(audios[0], True))
    assert encoding.together is None, "windows are encoded one by one"
    monkeypatch.setattr("simulst.models.huggingface.decoder.is_fast", lambda precision: False)
    assert most_rows(getattr(torch, dtype), torch.device("cpu")) == 0, "16 rows would take longer than one"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cut", [False, True])
def test_streams_together(family: str, cut: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of one model in a driver, with different options, joining one after the other: each as alone."""
    monkeypatch.setattr("simulst.streams.pauses.start_of_stream", Loudness)
    build, source, target, search = FAMILIES[family]
    model, audio = build(tmp_path), talk()[0]
    audios = [audio[:40000], audio[40000::-1].copy(), audio[:24000], audio[16000:48000]]
    segment = Pause(PAUSE) if cut else Whole()
    ways = [replace(HOW, read=Chunk(ms), search=search, segment=segment) for ms in (700, 900, 700, 700)]
    if isinstance(search, JointBeamSearch):
        ways[3] = replace(ways[3], search=replace(search, beam=3, no_repeat_ngram=2))

    def beams(stream: Any) -> list[Any]:
        return [] if cut else [hypothesis for beam in stream._beams for hypothesis in beam]

    def found(stream: Any) -> Any:
        return [(word.text, word.delay_ms) for word in stream.emissions], [one.tokens for one in beams(stream)]

    expected, streams = [], []
    for way, samples in zip(ways, audios, strict=True):
        alone: Any = open_stream(model, way, source, target)
        alone.push(samples, finished=True)
        expected.append(alone)
    batches = noted(monkeypatch, Driver, "_answer", lambda self, runs: [run.call for run in runs])
    driver = Driver(math.inf)
    for way, samples in zip(ways, audios, strict=True):
        streams.append(open_stream(model, way, source, target))
        driver.push(streams[-1], samples, True)
        for _ in range(3):
            driver.step()
    driver.finish()
    for stream, alone in zip(streams, expected, strict=True):
        assert found(stream) == found(alone)
        scores = [[one.score for one in beams(each)] for each in (stream, alone)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert any(stream.emissions for stream in streams)
    asked = {call.function.__name__ for calls in batches for call in calls}
    assert asked - {"tell", "hear"} == CALLS[family] and ("hear" in asked) == cut  # tell: only of 3 s or more
    assert (max(map(len, batches), default=1) > 1) == (cut or family != "cascade")


WINDOWED = (espnet("contextual_block_transformer", window=20), "en", "de", GREEDY)


@pytest.mark.parametrize("family", ["whisper", "huggingface", "blockwise with a window"])
def test_audio_that_the_kept_text_does_not_attend_to_leaves(family: str, tmp_path: Path) -> None:
    """Any cut of the audio gives the same words, and none changes. The window holds no more than the model reads."""
    build, source, target, search = FAMILIES.get(family, WINDOWED)
    model = build(tmp_path)
    audio = np.random.default_rng(1).uniform(-0.3, 0.3, 40 * SAMPLE_RATE).astype(np.float32)
    how = replace(HOW, commit=Hold(1), search=search, segment=Attention(2))
    found, left = [], []
    for cut in (3 * SAMPLE_RATE, audio.size):
        stream: Any = open_stream(model, how, source, target)
        for start in range(0, audio.size, cut):
            before = stream.committed
            stream.push(audio[start : start + cut])
            assert stream.committed[: len(before)] == before
            left.append(gone(stream.session))
            assert stream.session.length - left[-1] <= 31 * SAMPLE_RATE
        stream.push(audio[:0], finished=True)
        found.append([(word.text, word.delay_ms) for word in stream.emissions])
    assert found[0] == found[1] and any(0 < offset < 30 * SAMPLE_RATE for offset in left[:9])


@pytest.mark.parametrize("family", ["blockwise", "cascade"])
def test_a_model_whose_audio_does_not_leave_so(family: str, tmp_path: Path) -> None:
    build, source, target, search = FAMILIES[family]
    how = replace(HOW, search=search, segment=Attention())
    with pytest.raises(SimulstError, match=r"segment: attention needs a window .* write .segment: \{type: pause"):
        open_stream(build(tmp_path), how, source, target)
