"""load_audio: a sound file gives 16 kHz mono float32; anything else ends in a SimulstError that names the file."""

from __future__ import annotations

import os
import shutil
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.audio.decode import _Track
from simulst.audio.read import as_int16, audio_in_parts, load_audio, seconds_of, whole_seconds, write_wav
from simulst.audio.units import SAMPLE_RATE
from simulst.errors import SimulstError


def tone(rate: int, seconds: float = 0.5, hertz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(rate * seconds)) / rate)).astype(np.float32)


def write(path: Path, samples: np.ndarray, rate: int = SAMPLE_RATE, **options: str) -> Path:
    soundfile.write(path, samples, rate, **options)
    return path


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100, 48000])
def test_any_rate_becomes_16_khz(tmp_path: Path, rate: int) -> None:
    samples = load_audio(write(tmp_path / "a.wav", tone(rate), rate))
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    assert abs(samples.size - SAMPLE_RATE // 2) <= 1
    # The resampler rings at the edges; in between, the tone is the same.
    inner = slice(800, -800)
    assert np.abs(samples[inner] - tone(SAMPLE_RATE)[: samples.size][inner]).max() < 0.01


@pytest.mark.parametrize(
    ("suffix", "subtype"),
    [("wav", "PCM_U8"), ("wav", "PCM_16"), ("wav", "PCM_24"), ("wav", "PCM_32"), ("wav", "FLOAT"), ("wav", "DOUBLE"),
     ("flac", "PCM_16"), ("flac", "PCM_24"), ("ogg", "VORBIS"), ("wav", "ULAW")],
)  # fmt: skip
def test_any_format(tmp_path: Path, suffix: str, subtype: str) -> None:
    samples = load_audio(write(tmp_path / f"a.{suffix}", tone(SAMPLE_RATE), subtype=subtype))
    assert samples.size == SAMPLE_RATE // 2
    assert np.sqrt(np.mean(samples**2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.05)


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("factor", [32768.0, 20.0, 1e30])
def test_samples_of_another_unit_are_refused(tmp_path: Path, factor: float, subtype: str) -> None:
    path = write(tmp_path / "a.wav", factor * tone(SAMPLE_RATE), subtype=subtype)
    for read in (load_audio, whole_seconds):
        with pytest.raises(SimulstError, match=rf"a\.wav: its samples reach {factor / 2:.6g}".replace("+", r"\+")):
            read(path)


def test_samples_a_little_over_full_scale_are_kept(tmp_path: Path) -> None:
    np.testing.assert_array_equal(
        load_audio(write(tmp_path / "a.wav", 3 * tone(SAMPLE_RATE), subtype="FLOAT")), 3 * tone(SAMPLE_RATE)
    )


@pytest.mark.parametrize("channels", [[1, 0], [1, -0.5], [1, 0, 0, 0, 0, 0, 0, 0], [0, 0], [1e-3, -1e-3]])
def test_other_channels_are_mixed(tmp_path: Path, channels: list[float]) -> None:
    """Speech in one of many channels, silence, and inaudible noise."""
    samples = np.stack([factor * tone(SAMPLE_RATE) for factor in channels], axis=1).astype(np.float32)
    path = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    np.testing.assert_allclose(load_audio(path), samples.mean(axis=1), atol=1e-7)


def test_span(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(SAMPLE_RATE), subtype="FLOAT")
    np.testing.assert_array_equal(load_audio(path, 0.1, 0.3), tone(SAMPLE_RATE)[1600:4800])
    np.testing.assert_array_equal(load_audio(path, 0.4), tone(SAMPLE_RATE)[6400:])
    assert load_audio(path, 0.4, 0.52).size == 1600  # rounding of the segment table


@pytest.mark.parametrize(
    "span",
    [
        *[(0.0, 0.8), (0.4, 0.5201), (0.5, None), (0.7, None), (0.2, 0.2), (0.3, 0.2)],
        *[(float("nan"), None), (0.0, float("nan")), (0.0, float("inf")), (-1.0, None)],
    ],
)
def test_span_outside(tmp_path: Path, span: tuple[float, float | None]) -> None:
    path = write(tmp_path / "a.wav", tone(SAMPLE_RATE))
    with pytest.raises(SimulstError, match=r"a\.wav"):
        load_audio(path, *span)


def test_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulst.audio.read.BLOCK", 1000)
    path = write(tmp_path / "a.wav", tone(SAMPLE_RATE), subtype="FLOAT")
    for frames in (999, 1000, 1001, 2000, 8000):
        np.testing.assert_array_equal(load_audio(path, 0.0, frames / SAMPLE_RATE), tone(SAMPLE_RATE)[:frames])


def test_single_sample(tmp_path: Path) -> None:
    assert load_audio(write(tmp_path / "a.wav", np.ones(1, np.float32), 8000)).size
    with pytest.raises(SimulstError, match="shorter than one sample"):
        load_audio(write(tmp_path / "b.wav", np.ones(1, np.float32), 48000))


@pytest.mark.parametrize("seconds", [0.003, 0.01, 0.5, 3.0])
@pytest.mark.parametrize("suffix", ["wav", "flac", "mp3", "ogg"])
def test_whole_files(tmp_path: Path, suffix: str, seconds: float) -> None:
    for rate in (16000, 44100):
        assert whole_seconds(write(tmp_path / f"a.{suffix}", tone(rate, seconds), rate)) == pytest.approx(seconds, 0.01)


def without_first_frame(path: Path) -> None:
    """As an encoder writes an MP3 to a pipe: without the frame that says how long it is."""
    data = path.read_bytes()
    second = data.index(data[:2], 4)
    assert b"Info" in data[:second] or b"Xing" in data[:second]
    path.write_bytes(b"ID3\x04\0\0\0\0\x01\x00" + bytes(128) + data[second:])


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100, 48000])
def test_an_mp3_that_does_not_say_how_long_it_is(tmp_path: Path, rate: int) -> None:
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, 5 * rate) * np.linspace(0, 1, 5 * rate) ** 3
    path = tmp_path / "a.mp3"
    for mode, heard in (("CONSTANT", samples), ("VARIABLE", samples), ("VARIABLE", samples[::-1])):
        soundfile.write(path, heard, rate, bitrate_mode=mode)
        assert load_audio(path).size / SAMPLE_RATE == pytest.approx(5, abs=0.1)
        without_first_frame(path)
        assert 5 <= whole_seconds(path) < 5.2  # the encoder pads
        assert load_audio(path).size / SAMPLE_RATE == pytest.approx(whole_seconds(path), abs=1e-3)
    whole = path.read_bytes()
    path.write_bytes(whole + b"TAG" + bytes(125))
    assert load_audio(path).size / SAMPLE_RATE == pytest.approx(whole_seconds(path), abs=1e-3)
    path.write_bytes(whole[:-10])  # the last frame is cut off
    assert 4.9 < load_audio(path).size / SAMPLE_RATE < 5.2
    soundfile.write(path, 0.01 * samples, rate, bitrate_mode="VARIABLE")
    without_first_frame(path)
    quiet = path.read_bytes()
    path.write_bytes(quiet + bytes(5000) + quiet)  # files that were joined
    assert load_audio(path).size / SAMPLE_RATE == pytest.approx(10, abs=0.4)


def encode(path: Path, samples: np.ndarray, codec: str, film: bool = False) -> Path:
    """Write a container with PyAV. samples: (n,) at 48 kHz. film: with a picture, too."""
    with av.open(str(path), "w") as container:
        if film:
            video = container.add_stream("mpeg4", rate=5)
            video.width = video.height = 16
            video.pix_fmt = "yuv420p"
        stream = container.add_stream(codec, rate=48000, layout="mono")
        if film:
            for _ in range(5):
                picture = av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), np.uint8), format="rgb24")
                container.mux(video.encode(picture))
            container.mux(video.encode(None))
        frame = av.AudioFrame.from_ndarray(samples[None].astype(np.float32), format="fltp", layout="mono")
        frame.rate = 48000
        resampler = av.AudioResampler(format=stream.format, layout="mono", rate=48000, frame_size=stream.frame_size)
        for part in [*resampler.resample(frame), *resampler.resample(None)]:
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize(
    ("name", "codec", "film"),
    [("a.m4a", "aac", False), ("a.mp4", "aac", True), ("a.webm", "libopus", False), ("a.mkv", "pcm_s16le", True),
     ("a.mov", "pcm_s16le", True)],
)  # fmt: skip
def test_containers(tmp_path: Path, name: str, codec: str, film: bool) -> None:
    path = encode(tmp_path / name, tone(48000, 2.0), codec, film)
    samples = load_audio(path)
    assert samples.size / SAMPLE_RATE == pytest.approx(2, abs=0.1)
    assert np.sqrt(np.mean(samples[4000:-4000] ** 2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.05)
    assert whole_seconds(path) == seconds_of(path) == pytest.approx(2, abs=0.1)
    part = load_audio(path, 0.5, 1.5)
    assert part.size == SAMPLE_RATE
    np.testing.assert_allclose(part[800:-800], samples[SAMPLE_RATE // 2 :][:SAMPLE_RATE][800:-800], atol=1e-3)


def write_film(path: Path, samples: np.ndarray, parts: list[tuple[float, float]], video: bool = True) -> Path:
    """Ten seconds whose audio track has packets for `parts` (s) only. samples: (n,) at 16 kHz."""
    with av.open(str(path), "w") as out:
        sound = out.add_stream("pcm_s16le" if path.suffix == ".mkv" else "aac", rate=16000, layout="mono")
        picture = out.add_stream("mpeg4", rate=10) if video else None
        if picture:
            picture.width = picture.height = 64
        pcm, step = as_int16(samples), 1024
        for number in range(100 if picture else 0):
            frame = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 10)
            out.mux(picture.encode(frame))
        for begin, end in parts:
            for first in range(round(begin * SAMPLE_RATE), round(end * SAMPLE_RATE) - step + 1, step):
                block = av.AudioFrame.from_ndarray(pcm[None, first : first + step], "s16", "mono")
                block.sample_rate, block.pts, block.time_base = SAMPLE_RATE, first, Fraction(1, SAMPLE_RATE)
                out.mux(sound.encode(block))
        for stream in (picture, sound):
            out.mux(stream.encode(None) if stream else [])
    return path


@pytest.mark.parametrize("name", ["a.mkv", "a.mp4", "a.ts"])
@pytest.mark.parametrize("parts", [[(0, 10)], [(2, 10)], [(0, 2), (5, 10)], [(1, 3), (4, 5), (5.5, 10)]])
def test_sound_stands_at_the_time_of_the_film(
    tmp_path: Path, name: str, parts: list[tuple[float, float]], caplog: pytest.LogCaptureFixture
) -> None:
    """Also where its track begins later than the picture, or pauses: there is silence, and a warning."""
    beep = np.where(np.arange(10 * SAMPLE_RATE) // (SAMPLE_RATE // 2) == 12, tone(SAMPLE_RATE, 10), 0)
    samples = load_audio(write_film(tmp_path / name, beep, parts))
    loud = np.flatnonzero(np.abs(samples) > 0.1) / SAMPLE_RATE
    assert loud[0] == pytest.approx(6, abs=0.1) and loud[-1] == pytest.approx(6.5, abs=0.1)
    assert len(samples) / SAMPLE_RATE == pytest.approx(10, abs=0.2)
    assert len(caplog.records) == (parts != [(0, 10)])
    assert not caplog.records or "its sound pauses for" in caplog.records[0].getMessage()


def test_clocks_that_jump() -> None:
    """Where files were joined, the clock begins again; a time after the end of the container can't be right."""
    second = np.ones((1000, 1), np.float32)
    for times in ([0, 1, 0, 1], [0, 1, 7, 8], [None, None, 0.3, 1.3], [0, 1.05, 2, 3.02]):
        track = _Track(6.0)
        for time in times:
            track.add(second, 1000, time)
        assert track.heard == 4 and not track.gaps
    track = _Track(None)
    for time in (0, 1, 3, 2 * 3600, 2 * 3600 + 2):
        track.add(second, 1000, time)
    assert track.gaps == [(2.0, 1.0), (5.0, 1.0)] and track.heard == 7


JOINED = [((44100, 2), (48000, 2)), ((44100, 1), (22050, 1)), ((44100, 1), (44100, 2)), ((16000, 1), (16000, 1))]


@pytest.mark.parametrize("formats", [("MP3", "MPEG_LAYER_III"), ("OGG", "VORBIS"), ("OGG", "OPUS")])
@pytest.mark.parametrize("parts", JOINED)
def test_files_that_were_joined(
    tmp_path: Path, formats: tuple[str, str], parts: tuple[tuple[int, int], ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """Rate and channels may change on the way, as from a podcast to its adverts; a chained OGG is read to its end."""
    path, joined = tmp_path / "a", b""
    for seconds, (rate, channels) in zip((2, 3), parts, strict=True):
        rate = 48000 if formats[1] == "OPUS" else rate
        heard = np.stack([tone(rate, seconds, 400)] * channels, axis=1)
        joined += write(path, heard, rate, format=formats[0], subtype=formats[1]).read_bytes()
    path.write_bytes(joined)
    samples = load_audio(path)
    assert len(samples) / SAMPLE_RATE == pytest.approx(5, abs=0.2)
    assert whole_seconds(path) == pytest.approx(len(samples) / SAMPLE_RATE, abs=1e-3)
    for second in (0.5, 3.5):  # each part at its own pitch
        spectrum = np.abs(np.fft.rfft(samples[round(second * SAMPLE_RATE) :][:SAMPLE_RATE]))
        assert np.argmax(spectrum) == 400
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("size", [100, 1000, 200_000])
def test_a_flac_behind_a_tag(tmp_path: Path, size: int) -> None:
    plain = write(tmp_path / "plain.flac", np.random.default_rng(0).uniform(-0.3, 0.3, 8 * SAMPLE_RATE))
    tag = b"ID3\x04\0\0" + bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0)) + bytes(size)
    path = tmp_path / "a.flac"
    path.write_bytes(tag + plain.read_bytes())
    assert whole_seconds(path) == seconds_of(path) == 8
    for part in ((0.0, None), (6.0, 7.5)):
        np.testing.assert_array_equal(load_audio(path, *part), load_audio(plain, *part))
    path.write_bytes((tag + plain.read_bytes())[: -len(plain.read_bytes()) // 3])
    for function in (whole_seconds, load_audio):
        with pytest.raises(SimulstError, match=r"a\.flac: truncated"):
            function(path)


@pytest.mark.parametrize(
    ("form", "endian"),
    [
        ("WAV", "BIG"),
        *((form, "FILE") for form in ("WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "NIST", "CAF", "VOC", "SVX")),
        *((form, "FILE") for form in ("FLAC", "MP3")),
    ],
)
@pytest.mark.parametrize("keep", [0.3, 0.6, 0.95])
def test_any_format_that_was_cut_off(tmp_path: Path, form: str, endian: str, keep: float) -> None:
    heard, exact = np.random.default_rng(0).uniform(-0.5, 0.5, 8 * SAMPLE_RATE), form != "MP3"
    path = write(tmp_path / "a", heard, format=form, endian=endian, **({"subtype": "PCM_16"} if exact else {}))
    assert whole_seconds(path) == pytest.approx(8, abs=1e-3 if exact else 0.1)
    if exact:
        np.testing.assert_allclose(load_audio(path), heard, atol=1e-4)
    path.write_bytes(path.read_bytes()[: round(path.stat().st_size * keep)])
    for function in (whole_seconds, load_audio):
        with pytest.raises(SimulstError, match=r"truncated|not readable"):
            function(path)


def test_lengths_that_ffmpeg_guesses_are_no_promise(tmp_path: Path) -> None:
    """ADTS does not say how long it is; FFmpeg takes the bit rate of its beginning, here of silence or of noise."""
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 5 * 48000) * (np.arange(5 * 48000) > 4 * 48000)
    for heard in (noise, noise[::-1]):
        path = encode(tmp_path / "a.aac", heard, "aac")
        assert load_audio(path).size / SAMPLE_RATE == pytest.approx(5, abs=0.1)


def test_a_name_that_is_no_utf_8(tmp_path: Path) -> None:
    for name, samples in ((b"caf\xe9.wav", tone(SAMPLE_RATE)), (b"caf\xe9.mp3", tone(SAMPLE_RATE))):
        path = tmp_path / os.fsdecode(name)
        plain = write(tmp_path / f"plain{path.suffix}", samples)
        path.write_bytes(plain.read_bytes())
        np.testing.assert_array_equal(load_audio(path), load_audio(plain))
    write_wav(tmp_path / os.fsdecode(b"\xe9.wav"), tone(SAMPLE_RATE))


def test_a_flac_from_a_pipe_does_not_say_how_long_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "a.flac", tone(SAMPLE_RATE))
    data = bytearray(path.read_bytes())
    data[21:26] = bytes([data[21] & 0xF0, 0, 0, 0, 0])
    path.write_bytes(data)
    np.testing.assert_allclose(load_audio(path), tone(SAMPLE_RATE), atol=1e-4)


def wav(pcm: bytes, riff: int, data: int, tag: int = 1, bits: int = 16, channels: int = 1) -> bytes:
    """A WAV at 16 kHz whose header counts what it is told to."""
    block = channels * bits // 8
    layout = struct.pack("<IHHIIHH", 16, tag, channels, SAMPLE_RATE, SAMPLE_RATE * block, block, bits)
    return b"RIFF" + struct.pack("<I", riff) + b"WAVEfmt " + layout + b"data" + struct.pack("<I", data) + pcm


UNKNOWN_SIZES = [
    pytest.param(0x7FFFF024, 0x7FFFF000, id="sox to a pipe"),
    pytest.param(0x80000024, 0x80000000, id="a killed arecord"),
    pytest.param(0xFFFFFFFF, 0xFFFFFFFF, id="ffmpeg to a pipe"),
    pytest.param(36, 0, id="never filled in"),
    pytest.param(0, 0, id="nothing filled in"),
]


@pytest.mark.parametrize(("riff", "data"), UNKNOWN_SIZES)
def test_a_wav_that_does_not_know_how_long_it_is(
    tmp_path: Path, riff: int, data: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav(as_int16(tone(SAMPLE_RATE, 3)).tobytes(), riff, data))
    assert whole_seconds(path) == seconds_of(path) == 3
    np.testing.assert_allclose(load_audio(path), tone(SAMPLE_RATE, 3), atol=1e-4)
    assert not caplog.records


@pytest.mark.parametrize(("tag", "bits", "kind"), [(1, 16, "i2"), (1, 32, "i4"), (3, 32, "f4"), (3, 64, "f8")])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_wav_whose_header_counts_too_little(
    tmp_path: Path, tag: int, bits: int, kind: str, channels: int, caplog: pytest.LogCaptureFixture
) -> None:
    samples = tone(SAMPLE_RATE, 3)
    scaled = samples if kind[0] == "f" else samples * (2.0 ** (bits - 1) - 1)
    pcm = np.repeat(scaled, channels).astype("<" + kind).tobytes()
    path = tmp_path / "a.wav"
    path.write_bytes(wav(pcm, 36 + len(pcm) // 3, len(pcm) // 3, tag, bits, channels))
    assert seconds_of(path) == whole_seconds(path) == 3
    np.testing.assert_allclose(load_audio(path), samples, atol=1e-4)
    np.testing.assert_allclose(load_audio(path, 2, 2.5), samples[2 * SAMPLE_RATE :][: SAMPLE_RATE // 2], atol=1e-4)
    [record] = caplog.records
    assert "a.wav: its header counts 1.00 s, but the file holds more; all of it is read" in record.getMessage()


@pytest.mark.parametrize("behind", [b"LIST\x04\0\0\0INFO", b"id3 \x05\0\0\0abcde\0", b"TAG" + bytes(125), bytes(64)])
@pytest.mark.parametrize("length", [SAMPLE_RATE, SAMPLE_RATE + 1])
def test_what_may_stand_behind_the_samples(
    tmp_path: Path, behind: bytes, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.wav", tone(SAMPLE_RATE, 2)[:length], subtype="PCM_U8")
    data = path.read_bytes()
    path.write_bytes(data + b"\0" * (len(data) % 2) + behind)
    assert load_audio(path).size == length
    assert not caplog.records


def test_a_compressed_wav_whose_header_counts_too_little(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(SAMPLE_RATE, 3), subtype="GSM610")
    assert load_audio(path).size == pytest.approx(3 * SAMPLE_RATE, abs=400)
    data = bytearray(path.read_bytes())
    place = data.index(b"data")
    data[place + 4 : place + 8] = struct.pack("<I", 650)
    path.write_bytes(data)
    assert load_audio(path).size == pytest.approx(3 * SAMPLE_RATE, abs=400)


def test_samples_that_look_like_a_chunk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav(b"AAAA" * SAMPLE_RATE, 36 + SAMPLE_RATE, SAMPLE_RATE))
    assert load_audio(path).size == 2 * SAMPLE_RATE
    [record] = caplog.records
    assert "counts 0.50 s, but the file holds more" in record.getMessage()


@pytest.mark.parametrize("first", [0.0, 0.3, 1.7, 4.0])
def test_channels_that_cancel_in_a_part_are_refused(tmp_path: Path, first: float) -> None:
    left = tone(SAMPLE_RATE, 5)
    right = left.copy()
    begin = round(first * SAMPLE_RATE)
    right[begin : begin + SAMPLE_RATE] *= -1
    path = write(tmp_path / "a.wav", np.stack([left, right], axis=1))
    with pytest.raises(SimulstError, match=r"a\.wav: its 2 channels cancel each other at \d\.\d s"):
        load_audio(path)


@settings(max_examples=60)
@given(
    cut=st.integers(0, 2000), at=st.integers(0, 200), value=st.integers(0, 255), suffix=st.sampled_from(["wav", "flac"])
)
def test_damage_ends_in_samples_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, cut: int, at: int, value: int, suffix: str
) -> None:
    path = write(tmp_path_factory.mktemp("damage") / f"a.{suffix}", tone(SAMPLE_RATE, 0.1))
    data = bytearray(path.read_bytes())
    data[at] = value
    path.write_bytes(data[: len(data) - cut])
    try:
        samples = load_audio(path)
    except SimulstError as error:
        assert str(path) in str(error)
    else:
        assert samples.size
        assert np.isfinite(samples).all()


def test_a_full_disk(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(shutil.disk_usage(small_disk).free - 8_000))
    with pytest.raises(SimulstError, match=r"a\.wav: cannot be written .* run the same command again"):
        write_wav(small_disk / "a.wav", np.zeros(50_000, np.float32))
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


@settings(max_examples=15)
@given(
    st.sampled_from(["a.wav", "a.flac", "a.ogg", "a.mp3"]), st.sampled_from([8000, 16000, 44100]), st.floats(0.05, 0.9)
)
def test_a_file_in_parts_is_the_whole_file(tmp_path_factory: Any, name: str, rate: int, seconds: float) -> None:
    """Sample for sample: also where it is resampled or decoded."""
    path = tmp_path_factory.mktemp("parts") / name
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, (rate, 2)), rate)
    np.testing.assert_array_equal(np.concatenate(list(audio_in_parts(path, seconds))), load_audio(path))
