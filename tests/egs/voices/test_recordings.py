from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from games import speech

from lines import Line, samples
from recordings import BREAK, PAUSE, SHORTEST, plan, write


def lines(n: int, seconds: float = 1.0) -> list[Line]:
    return [
        Line(f"g-1-{i:04}", "g", "1", i + 5 * (i // 10), "x", {"en": "a"}, {"en": speech(seconds + i % 5 / 10, i)})
        for i in range(n)
    ]


def test_lines_follow_each_other_with_pauses() -> None:
    (recording,) = plan(lines(25), "en", "r")
    assert [placed.line.number for placed in recording.lines] == sorted(line.number for line in lines(25))
    first, last = recording.lines[0], recording.lines[-1]
    assert BREAK[0] <= first.offset <= BREAK[1]
    assert BREAK[0] <= recording.seconds - last.offset - last.duration <= BREAK[1] + 0.001
    for a, b in zip(recording.lines, recording.lines[1:], strict=False):
        pause = b.offset - a.offset - a.duration
        low, high = PAUSE if b.line.number - a.line.number == 1 else BREAK
        assert low - 0.001 <= pause <= high + 0.001
    assert plan(lines(25), "en", "r") == [recording]
    assert plan([], "en", "r") == []


@pytest.mark.parametrize(("n", "seconds", "parts"), [(100, 2.0, 1), (250, 2.0, 1), (450, 2.0, 2), (900, 2.4, 5)])
def test_recordings_are_of_5_to_15_minutes(n: int, seconds: float, parts: int) -> None:
    found = plan(lines(n, seconds), "en", "r")
    assert [recording.name for recording in found] == [f"r-{i:02}" for i in range(1, parts + 1)]
    assert sum(len(recording.lines) for recording in found) == n
    if parts > 1:
        assert all(SHORTEST <= recording.seconds <= 900 for recording in found)


def test_audio_lies_where_the_plan_says(tmp_path: Path) -> None:
    (recording,) = plan(lines(12), "en", "r")
    write(recording, tmp_path / "r.wav")
    audio, rate = soundfile.read(tmp_path / "r.wav", dtype="float32")
    assert rate == 16000 and audio.size == round(recording.seconds * rate)
    silent = np.ones(audio.size, bool)
    for placed in recording.lines:
        begin = round(placed.offset * rate)
        wanted = samples(placed.line.speech["en"])
        assert wanted.size == round(placed.duration * rate)
        np.testing.assert_allclose(audio[begin : begin + wanted.size], wanted, atol=1e-4)
        silent[begin : begin + wanted.size] = False
    assert not audio[silent].any() and silent.any()


def test_samples() -> None:
    assert samples(bytes([128] * 11025)).shape == (16000,)
    assert not samples(bytes([128] * 100)).any()
    tone = (128 + 100 * np.sin(np.arange(11025) * 2 * np.pi * 440 / 11025)).astype(np.uint8)
    spectrum = np.abs(np.fft.rfft(samples(tone.tobytes())))
    assert spectrum.argmax() == 440
