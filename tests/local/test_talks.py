"""Talks: audio lies where talks.yaml says, to the sample; lines belong to it; the same seed gives the same bytes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
import sounds
import yaml
from contents import contents

import talks
from corpora.recordings import grouped
from gaps import KINDS, MUSIC, NOISE, gap
from simulst.audio.read import load_audio
from simulst.data.datadir import read_data_dir, write_data_dir
from simulst.errors import SimulstError
from simulst.files.table import read_table
from simulst.measure.segmentation import read_segmentation
from talks import join, whole_recordings

RATE = 16000
SIZES = {"a": 8001, "b": 16003, "c": 4999, "d": 12345, "e": 20011}  # samples


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """A data directory of utterances with files of their own; each holds another constant level."""
    audio = {name: np.full(size, n / 16) for n, (name, size) in enumerate(SIZES.items(), start=1)}
    texts = {la: {name: f"{la} {name}" for name in SIZES} for la in ("es", "en")}
    return sounds.write(tmp_path / "prompts", audio, texts)


def check(out: Path, names: list[str]) -> np.ndarray:
    """Each sentence's audio, to the sample; returns the rest of the talk, between the sentences."""
    rows, lines = yaml.safe_load((out / "talks.yaml").read_text()), (out / "talks.en").read_text().splitlines()
    assert lines == [f"en {name}" for name in names]
    assert (out / "talks.es").read_text().splitlines() == [f"es {name}" for name in names]
    (talk,) = read_data_dir(out, "en")
    samples = load_audio(talk.wav)
    assert talk.reference == " ".join(lines) and talk.end is None
    rest = np.ones(samples.size, bool)
    for row, name in zip(rows, names, strict=True):
        assert row["wav"] == talk.wav.name and row["speaker_id"] == "s"
        first, size = row["offset"] * RATE, row["duration"] * RATE
        assert abs(first - round(first)) < 1e-6 and abs(size - SIZES[name]) < 1e-6
        span = slice(round(first), round(first + size))
        level = (list(SIZES).index(name) + 1) / 16
        assert rest[span].all() and np.allclose(samples[span], level, atol=1e-3)
        assert not samples[span.start - 1] and (span.stop == samples.size or not samples[span.stop])
        rest[span] = False
    assert [s.text for s in read_segmentation(out / "talks.yaml", out / "talks.en")] == lines
    return np.where(rest, samples, 0)


def test_natural_pauses(prompts: Path, tmp_path: Path) -> None:
    join(prompts, tmp_path / "talks", "es", "en")
    assert not check(tmp_path / "talks", list(SIZES)).any()
    assert read_table(tmp_path / "talks/wav.scp") == {"es-natural-1": "wav/es-natural-1.wav"}
    assert not (tmp_path / "talks/gaps.tsv").read_text()
    rows = yaml.safe_load((tmp_path / "talks/talks.yaml").read_text())
    pauses = [b["offset"] - a["offset"] - a["duration"] for a, b in pairwise(rows)]
    assert all(talks.PAUSE[0] - 1e-4 <= pause <= talks.PAUSE[1] + 1e-4 for pause in pauses)


def test_long_pauses(prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talks, "GAP", 2.0)
    monkeypatch.setattr(talks, "BETWEEN_GAPS", 1.0)
    join(prompts, tmp_path / "talks", "es", "en", "long")
    rest = check(tmp_path / "talks", list(SIZES))
    rows = [line.split("\t") for line in (tmp_path / "talks/gaps.tsv").read_text().splitlines()]
    assert [kind for *_, kind in rows] == list(KINDS)
    for wav, offset, duration, kind in rows:
        assert wav == "es-long-1.wav" and duration == "2.0"
        span = slice(round(float(offset) * RATE), round(float(offset) * RATE) + 2 * RATE)
        assert rest[span].any() == (kind != "silence")
        rest[span] = 0
    assert not rest.any()


def test_the_same_seed_gives_the_same_bytes(
    prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(talks, "GAP", 1.0)
    monkeypatch.setattr(talks, "BETWEEN_GAPS", 0.5)
    out = tmp_path / "talks"
    found = []
    for seed in (3, 3, 4):
        join(prompts, out, "es", "en", "long", seed, force=True)
        found.append(contents(out))
    assert found[0] == found[1] != found[2]
    join(prompts, out, "es", "en", "long", 4)
    assert "complete; --force does it again" in capsys.readouterr().out
    with pytest.raises(SimulstError, match="talks"):
        join(prompts, out, "es", "en", "natural", 4)


def test_a_talk_has_ten_minutes_and_more() -> None:
    for total in (100, 601, 1150, 1300, 4000):
        groups = grouped(range(total), [1.0] * total, 600, 600)
        assert [item for group in groups for item in group] == list(range(total))
        assert len(groups) == max(1, total // 600) and min(map(len, groups)) >= min(total, 599)
    assert grouped([], [], 600, 600) == []


def test_whole_recordings(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "talks"
    data.mkdir()
    for name in ("x", "y"):
        soundfile.write(data / f"{name}.wav", np.full(4 * RATE, 0.1), RATE)
    spans = {"s-1": "x 0.500 1.250", "s-2": "x 1.250 2.000", "s-3": "y 0.010 4.000"}
    tables = {"wav.scp": {name: f"{name}.wav" for name in ("x", "y")}, "segments": spans}
    tables |= {"utt2spk": dict.fromkeys(spans, "s")}
    tables |= {f"text.tc.{la}": {name: f"{la}{name}" for name in spans} for la in ("en", "ja")}
    write_data_dir(data, tables)
    whole_recordings(data, out, "en", "ja")
    found = read_segmentation(out / "talks.yaml", out / "talks.ja")
    assert [(s.recording, s.offset, s.duration, s.text) for s in found] == [
        ("x", 0.5, 0.75, "jas-1"),
        ("x", 1.25, 0.75, "jas-2"),
        ("y", 0.01, 3.99, "jas-3"),
    ]
    assert [(u.wav.resolve(), u.reference) for u in read_data_dir(out, "ja")] == [
        ((data / "x.wav").resolve(), "jas-1jas-2"),  # Japanese has no spaces
        ((data / "y.wav").resolve(), "jas-3"),
    ]
    assert read_table(out / "text.en") == {"x": "ens-1 ens-2", "y": "ens-3"}


@pytest.mark.parametrize("name", ["more/b", "my talk", "a, b", "a:b"])
def test_names_that_the_tables_could_not_hold_are_refused(prompts: Path, tmp_path: Path, name: str) -> None:
    """Neither can two recordings be called b."""
    (prompts / "more").mkdir()
    (prompts / "a.wav").rename(prompts / f"{name}.wav")
    (prompts / "wav.scp").write_text((prompts / "wav.scp").read_text().replace("a a.wav", f"a {name}.wav"))
    said = rf"{name}\.wav: the name may have letters, digits .* rename the file"
    with pytest.raises(SimulstError, match="several recordings are called b; rename" if "/" in name else said):
        whole_recordings(prompts, tmp_path / "talks", "es", "en")


@pytest.mark.parametrize("kind", KINDS)
def test_gaps(kind: str) -> None:
    audio, again, other = (gap(kind, 3 * RATE, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert audio.shape == (3 * RATE,) and audio.dtype == np.float32 and np.array_equal(audio, again)
    assert np.array_equal(audio, other) == (kind == "silence")
    level = {"silence": 0.0, "noise": NOISE, "music": MUSIC}[kind]
    assert np.sqrt(np.mean(np.square(audio))) == pytest.approx(level, rel=1e-3) and np.abs(audio).max() < 0.9
