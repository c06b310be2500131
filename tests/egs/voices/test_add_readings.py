"""Synthetic readings of the training lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from add_readings import LINES_PER_TALK, Line, add_readings, plan_readings
from simulst.audio.read import load_audio
from simulst.data.combine import combine_pairs
from simulst.data.datadir import read_data_dir, read_table, write_data_dir
from simulst.errors import SimulstError
from speech import VOICES

TEXTS = {"a-1": ("Where is the lift?", "Wo ist der Lift?"), "a-2": ("Go away!", "Geh weg!"), "b-1": ("No.", "Nein.")}


def lines_in(folder: Path, texts: dict[str, tuple[str, str]]) -> Path:
    """A data directory of noise."""
    folder.mkdir(parents=True)
    noise = np.random.default_rng(0).normal(0, 0.1, 3 * 16000)
    soundfile.write(folder / "r.wav", noise, 16000)
    segments = {name: f"r {k:.2f} {k + 0.9:.2f}" for k, name in enumerate(texts)}
    tables = {"wav.scp": {"r": "r.wav"}, "segments": segments, "utt2spk": {name: name[0] for name in texts}}
    for n, file in enumerate(("text.tc.en", "text.tc.de")):
        tables[file] = {name: text[n] for name, text in texts.items()}
    tables["text.lc.rm.en"] = {name: text[0].lower().rstrip("?!.") for name, text in texts.items()}
    write_data_dir(folder, tables)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lines_in(tmp_path_factory.mktemp("lines") / "en-de/train", TEXTS)


def audio_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "wav").iterdir()}


def test_each_line_is_there_and_is_read(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "readings/en-de/train"
    add_readings(data, out, "en", 2, "en-de")
    assert "3 utterances and 6 readings of 0.0 hours" in capsys.readouterr().out
    german, english = (read_data_dir(out, language) for language in ("de", "en"))
    assert len(german) == len(english) == 9
    for utterance, spoken in zip(german, english, strict=True):
        original = utterance.name if utterance.name in TEXTS else utterance.name.split("-", 4)[-1]
        assert (spoken.reference, utterance.reference) == TEXTS[original]
        samples = load_audio(utterance.wav, utterance.start, utterance.end)
        if original != utterance.name:
            assert 0.05 < samples.size / 16000 / len(spoken.reference) < 0.25  # seconds per character
            before = load_audio(utterance.wav, utterance.start - 0.2, utterance.start)
            assert np.std(samples) > 2 * np.std(before)
    speakers = read_table(out / "utt2spk")
    assert all(name.startswith(speaker) for name, speaker in speakers.items())


@pytest.mark.usefixtures("warm_programs")
def test_jobs_do_not_matter_and_seeds_do(data: Path, tmp_path: Path) -> None:
    for name, seed, jobs in (("one", "x", 1), ("two", "x", 2), ("other", "y", 1)):
        add_readings(data, tmp_path / name, "en", 1, seed, jobs)
    assert audio_of(tmp_path / "one") == audio_of(tmp_path / "two")
    assert (tmp_path / "one/segments").read_text() == (tmp_path / "two/segments").read_text()
    assert set(audio_of(tmp_path / "one").values()).isdisjoint(audio_of(tmp_path / "other").values())


def test_it_is_made_once(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    add_readings(data, out, "en", 1)
    before = audio_of(out)
    add_readings(data, out, "en", 1)
    assert "complete; --force does it again" in capsys.readouterr().out
    with pytest.raises(SimulstError, match="--force"):
        add_readings(data, out, "en", 2)
    assert audio_of(out) == before
    add_readings(data, out, "en", 2, force=True)
    assert len(audio_of(out)) == 2


def test_every_voice_reads_and_each_reading_has_all_lines() -> None:
    lines = [Line(f"u{n}", ()) for n in range(LINES_PER_TALK * len(VOICES) + 1)]
    talks = plan_readings(lines, 2, "seed")
    first, second = (talks[: len(talks) // 2], talks[len(talks) // 2 :])
    for reading in (first, second):
        assert sorted(line.name for talk in reading for line in talk.segments) == sorted(line.name for line in lines)
        assert {talk.voice for talk in reading} == set(VOICES)
    assert len({talk.name for talk in talks}) == len({talk.seed for talk in talks}) == len(talks)
    assert first[0].segments != second[0].segments


def test_readings_of_several_pairs_are_combined(data: Path, tmp_path: Path) -> None:
    french = {name: (english, "Oui.") for name, (english, _) in TEXTS.items()}
    other = lines_in(tmp_path / "lines/en-fr/train", french)
    (other / "text.tc.de").rename(other / "text.tc.fr")
    for pair, folder in (("en-de", data), ("en-fr", other)):
        add_readings(folder, tmp_path / pair / "train", "en", 1, pair)
    combine_pairs(tmp_path, ["en-de", "en-fr"], "train", tmp_path / "both")
    together = read_data_dir(tmp_path / "both", "multi")
    assert len(together) == 12 and all(utterance.wav.is_file() for utterance in together)


def test_bad_lines(data: Path, tmp_path: Path) -> None:
    with pytest.raises(SimulstError, match=r"--source-lang es: the readings' voices speak English \(en\) only"):
        add_readings(data, tmp_path / "out", "es", 1)
    dots = lines_in(tmp_path / "dots", TEXTS | {"b-1": ("...", "...")})
    with pytest.raises(SimulstError, match=r"text.tc.en: 'b-1' has no letters, so nobody can read it"):
        add_readings(dots, tmp_path / "out", "en", 1)
    (dots / "segments").unlink()
    with pytest.raises(SimulstError, match="must hold the same utterances"):
        add_readings(dots, tmp_path / "out", "en", 1)
    assert not (tmp_path / "out").exists()
