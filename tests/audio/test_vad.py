"""The voice activity detector on synthetic speech, noise and silence, and what it needs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from fake import FakeModel

from simulst.audio import vad
from simulst.audio.units import SAMPLE_RATE
from simulst.audio.vad import CHUNK, Hearing, start_of_stream
from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.policy.commit import All
from simulst.policy.read import Chunk
from simulst.policy.segment import Pause
from simulst.streams import open_stream
from simulst.streams.driver import Driver
from speech import espeak, in_a_room


def segments(samples: np.ndarray, pause: float = 0.25) -> list[tuple[int, int]]:
    """The samples between which utterances are found."""
    how = Decoding(Chunk(1000), All(), segment=Pause(pause))
    stream = open_stream(FakeModel(), how, "es", "en")
    words = stream.push(samples.astype(np.float32), finished=True)
    assert bool(words) == bool(stream.segments)
    return [(round(16 * begin), round(16 * end)) for begin, end in stream.segments]


@pytest.mark.parametrize("voice", ["en-us+f3", "en-gb-x-rp+m4"])
def test_sentences_are_found(voice: str) -> None:
    """In a room with an echo and noise: begins within 60 ms, ends with at most 0.25 s of echo, cut at no comma."""
    texts = "When I was in Berlin, I met my aunt.", "The old man sleeps.", "He reads, she writes, and they sing."
    random = np.random.default_rng(1)
    pieces, places, at = [], [], 0
    with espeak() as say:
        for text, gap in zip(texts, (0.6, 1.2, 0.4), strict=True):
            speech = say(text, voice, 150, 50)
            pieces += [np.zeros(round(gap * SAMPLE_RATE), np.float32), speech]
            places.append((at + len(pieces[-2]), at + len(pieces[-2]) + len(speech)))
            at = places[-1][1]
    pieces.append(np.zeros(SAMPLE_RATE // 2, np.float32))
    found = segments(in_a_room(np.concatenate(pieces), random))
    assert len(found) == len(places)
    for (begin, end), (first, last) in zip(found, places, strict=True):
        assert -0.11 < (begin - first) / SAMPLE_RATE < 0.01
        assert -0.05 < (end - last) / SAMPLE_RATE < 0.25


@pytest.mark.parametrize("level", [0.0, 1e-4, 1e-2, 0.1])
def test_silence_and_noise_are_no_speech(level: float) -> None:
    random = np.random.default_rng(2)
    assert segments(level * random.standard_normal(8 * SAMPLE_RATE)) == []
    assert segments(level * np.sin(np.arange(5 * SAMPLE_RATE) * 0.3)) == []


@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_clipping_and_an_offset(offset: float) -> None:
    """Speech that is clipped, or beside the zero line, is found; the offset alone is no speech."""
    quiet = np.zeros(SAMPLE_RATE)
    assert segments(quiet + offset) == []
    with espeak() as say:
        speech = say("The old man sleeps.", "en-us+f3", 150, 50)
    clipped = np.clip(np.concatenate([quiet, 20 * speech, quiet]) + offset, -1, 1)
    [(begin, end)] = segments(clipped)
    assert abs(begin - SAMPLE_RATE) < 0.2 * SAMPLE_RATE
    assert abs(end - SAMPLE_RATE - speech.size) < 0.4 * SAMPLE_RATE


def test_hearing_can_be_gone_on_from_again() -> None:
    random = np.random.default_rng(3)
    chunks = random.normal(0, 0.1, (12, CHUNK)).astype(np.float32)
    hearings: list[Hearing] = [start_of_stream()]
    for chunk in chunks:
        hearings.append(hearings[-1].next(chunk))
    for before, chunk, after in zip(hearings, chunks, hearings[1:], strict=False):
        again = before.next(chunk)
        assert again.speech == after.speech
        np.testing.assert_array_equal(again.state, after.state)
        np.testing.assert_array_equal(again.context, chunk[-vad.CONTEXT :])


def test_streams_together_hear_what_each_hears_alone() -> None:
    random = np.random.default_rng(4)
    how = Decoding(Chunk(1000), All(), segment=Pause(0.25))
    with espeak() as say:
        speech = say("The old man sleeps.", "en-us+f3", 150, 50)
    quiet = np.zeros(SAMPLE_RATE, np.float32)
    audios = [np.concatenate([quiet[:cut], speech, quiet, speech[cut:], quiet]) for cut in (0, 3000, 9000)]
    audios += [in_a_room(audios[0], random), random.normal(0, 0.1, 30000).astype(np.float32), quiet[:1]]
    alone = [open_stream(FakeModel(), how, "es", "en") for _ in audios]
    driver, together = Driver(), [open_stream(FakeModel(), how, "es", "en") for _ in audios]
    for stream, audio in zip(alone, audios, strict=True):
        stream.push(audio, finished=True)
    pushed = [driver.push(stream, audio, finished=True) for stream, audio in zip(together, audios, strict=True)]
    driver.finish()
    assert [one.result() for one in pushed] == [stream.emissions for stream in together]
    assert [stream.segments for stream in together] == [stream.segments for stream in alone]
    assert [len(stream.segments) for stream in together] == [2, 2, 2, 2, 0, 0]
    assert [stream.committed_text for stream in together] == [stream.committed_text for stream in alone]


def test_it_is_the_packages_own() -> None:
    """The same probabilities as by the package's own calls, seen in the state that they leave."""
    from silero_vad import load_silero_vad

    whole = load_silero_vad()
    hearing = start_of_stream()
    with espeak() as say:
        speech = say("The old man sleeps.", "en-us+f3", 150, 50)
    import torch

    speaks = []
    for start in range(0, speech.size - CHUNK, CHUNK):
        chunk = speech[start : start + CHUNK]
        probability = float(whole(torch.from_numpy(chunk), SAMPLE_RATE))
        threshold = vad.SILENCE if hearing.speech else vad.SPEECH
        hearing = hearing.next(chunk)
        assert hearing.speech == (probability >= threshold)
        speaks.append(hearing.speech)
    assert sum(speaks) > 0.7 * len(speaks)


def test_threads_stay_as_they_are() -> None:
    """In a new process, as the package is imported only once."""
    code = "import torch; torch.set_num_threads(3); from simulst.audio.vad import start_of_stream; start_of_stream(); "
    code += "print(torch.get_num_threads())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("3", "")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "silero_vad", None)
    vad._network.cache_clear()
    open_stream(FakeModel(), Decoding(Chunk(100), All()), "es", "en")
    with pytest.raises(SimulstError, match="pip install silero-vad"):
        open_stream(FakeModel(), Decoding(Chunk(100), All(), segment=Pause(0.3)), "es", "en")
    monkeypatch.undo()
    vad._network.cache_clear()
    open_stream(FakeModel(), Decoding(Chunk(100), All(), segment=Pause(0.3)), "es", "en")
