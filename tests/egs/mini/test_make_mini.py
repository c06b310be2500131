"""The mini corpus: MuST-C's layout, speech where the YAML says, the same bytes for the same seed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import waiting
import warm
import yaml
from contents import contents

import speech
from make_mini import make_mini, plan_talks
from sentences import make_splits
from simulst.audio.read import load_audio
from simulst.errors import SimulstError
from speech import UNSEEN_VOICES, VOICES, Span, Talk

SIZES = {"train": 20, "dev": 3, "tst-COMMON": 3, "tst-HE": 3}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("mini")
    make_mini(root, SIZES, ["en-de", "en-ja"])
    return root


def segments(corpus: Path, split: str, pair: str = "en-de") -> list[dict]:
    return yaml.safe_load((corpus / pair / "data" / split / "txt" / f"{split}.yaml").read_text())


def test_layout(corpus: Path) -> None:
    for split, size in SIZES.items():
        folder = corpus / "en-de" / "data" / split
        rows = segments(corpus, split)
        assert list(rows[0]) == ["duration", "offset", "rW", "uW", "speaker_id", "wav"]
        assert {row["wav"] for row in rows} == {path.name for path in (folder / "wav").iterdir()}
        for language in ("en", "de"):
            assert len((folder / "txt" / f"{split}.{language}").read_text().splitlines()) == len(rows) == size
    assert not list(corpus.rglob("*.part"))


def test_the_texts_are_those_of_the_grammar(corpus: Path) -> None:
    for split, sentences in make_splits(SIZES).items():
        for pair, language in (("en-de", "en"), ("en-de", "de"), ("en-ja", "ja")):
            lines = (corpus / pair / "data" / split / "txt" / f"{split}.{language}").read_text().splitlines()
            assert lines == [getattr(sentence, language) for sentence in sentences]


def test_segments_lie_in_order_within_their_talks_and_hold_the_speech(corpus: Path) -> None:
    for split in SIZES:
        ends: dict[str, float] = {}
        for row in segments(corpus, split):
            path = corpus / "en-de" / "data" / split / "wav" / row["wav"]
            start, end = row["offset"], row["offset"] + row["duration"]
            assert ends.get(row["wav"], 0.0) < start < end <= soundfile.info(str(path)).duration
            level = np.std(load_audio(path, start, end))
            pause = np.std(load_audio(path, start - 0.2, start))
            assert level > 2 * pause
            assert 0.2 < row["duration"] / row["rW"] < 0.7  # seconds per word
            ends[row["wav"]] = end


def test_speech_has_16_khz_and_does_not_clip(corpus: Path) -> None:
    for path in corpus.rglob("*.wav"):
        samples, rate = soundfile.read(path)
        assert rate == 16000 and samples.ndim == 1 and 0.45 < np.abs(samples).max() < 0.95


def test_pairs_share_the_speech(corpus: Path) -> None:
    for split in SIZES:
        assert segments(corpus, split) == segments(corpus, split, "en-ja")
    german, japanese = ({p.name: p for p in (corpus / pair).rglob("*.wav")} for pair in ("en-de", "en-ja"))
    assert german.keys() == japanese.keys()
    assert all(path.samefile(japanese[name]) for name, path in german.items())


@pytest.mark.usefixtures("warm_programs")
def test_the_same_seed_gives_the_same_bytes_in_any_number_of_processes(corpus: Path, tmp_path: Path) -> None:
    make_mini(tmp_path / "again", SIZES, ["en-de", "en-ja"], jobs=2)
    assert contents(tmp_path / "again") == contents(corpus)


def test_talks_have_pauses_within_their_segments(tmp_path: Path) -> None:
    sizes = {"dev": 12}
    make_mini(tmp_path, sizes, ["en-de", "en-ja"], style="talk")
    rows, text = segments(tmp_path, "dev"), tmp_path / "en-de/data/dev/txt/dev.en"
    assert len(text.read_text().splitlines()) == len(rows)
    (path,) = (tmp_path / "en-de/data/dev/wav").iterdir()
    quiet, ends = [], 0.0
    for row in rows:  # those of one talk follow each other
        assert ends < row["offset"]
        ends = row["offset"] + row["duration"]
        samples = load_audio(path, row["offset"], ends)
        level = np.sqrt(np.mean(np.square(samples[: len(samples) // 1600 * 1600].reshape(-1, 1600)), axis=1))
        quiet.append(sum(level < 0.1 * level.max()) / 10)
    assert ends <= soundfile.info(str(path)).duration
    assert sum(seconds > 0.2 for seconds in quiet) > len(rows) / 3
    stamp = contents(tmp_path)
    make_mini(tmp_path, sizes, ["en-de", "en-ja"], style="talk")
    assert contents(tmp_path) == stamp
    make_mini(tmp_path, sizes, force=True)
    assert contents(tmp_path) != stamp and len(segments(tmp_path, "dev")) == 12
    with pytest.raises(SimulstError, match="'song' is not offered; choose from sentences, talk"):
        make_mini(tmp_path, sizes, style="song")  # type: ignore[arg-type]


def test_a_killed_stage_goes_on_where_it_was(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speak, spoken = speech.speak_talk, []

    def dying(talk: Talk, path: Path) -> list[Span]:
        spoken.append(talk.name)
        if len(spoken) == 4:
            raise KeyboardInterrupt
        return speak(talk, path)

    monkeypatch.setattr(speech, "speak_talk", dying)
    with pytest.raises(KeyboardInterrupt):
        make_mini(tmp_path, SIZES)
    data = tmp_path / "en-de" / "data"
    whole = [path.name for path in data.iterdir() if not path.name.endswith(".part")]
    assert 0 < len(whole) < 4
    spoken += [""]  # from now on it lives
    make_mini(tmp_path, SIZES)
    assert contents(tmp_path / "en-de") == contents(corpus / "en-de")
    assert len(spoken) == len({*spoken}) + 1  # only the talk it died in was begun again
    make_mini(tmp_path, SIZES, ["en-ja"])


def test_other_options_make_it_again_by_force(tmp_path: Path) -> None:
    sizes = {"dev": 2}
    make_mini(tmp_path, sizes)
    before = contents(tmp_path)
    with pytest.raises(SimulstError, match=r"dev: was made with other options; name another folder, or use --force"):
        make_mini(tmp_path, sizes, seed=1)
    assert contents(tmp_path) == before
    make_mini(tmp_path, sizes, seed=1, force=True)
    assert contents(tmp_path) != before


def test_somebody_elses_corpus_is_not_replaced(tmp_path: Path) -> None:
    talk = tmp_path / "en-de/data/dev/wav/ted_1.wav"
    talk.parent.mkdir(parents=True)
    talk.write_text("precious")
    with pytest.raises(SimulstError, match="dev: is there already, and this program has not made it"):
        make_mini(tmp_path, {"dev": 2}, force=True)
    assert talk.read_text() == "precious"


def test_voices_of_tst_he_are_heard_nowhere_else() -> None:
    splits = make_splits({"train": 400, "dev": 50, "tst-COMMON": 50, "tst-HE": 50})
    talks = plan_talks(splits, 0)
    voices = {split: {talk.voice for talk in talks[split]} for split in talks}
    assert voices["train"] == set(VOICES) >= voices["tst-COMMON"] | voices["dev"]
    assert voices["tst-HE"] == set(UNSEEN_VOICES) and not voices["tst-HE"] & voices["train"]
    names = [talk.name for split in talks.values() for talk in split]
    assert len(names) == len(set(names))
    by_speaker = {(talk.speaker, talk.voice) for split in talks.values() for talk in split}
    assert len(by_speaker) == len({speaker for speaker, _ in by_speaker}) == len(VOICES) + len(UNSEEN_VOICES)


def test_ctrl_c_ends_in_one_sentence(tmp_path: Path) -> None:
    """A terminal sends the signal to all processes of the command; so does this test."""
    program = Path(__file__).parents[3] / "egs/mini/local/make_mini.py"
    args = [program, "--out", tmp_path / "mini", "--pairs", "en-de", "--jobs", "2", "--train", "500"]
    run = subprocess.Popen(
        [sys.executable, "-u", *map(str, args)],  # -u: not in the warm process, so in one group with what it spawns
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=warm.environment(),
    )
    waiting.until(lambda: list(tmp_path.rglob("*.wav")), tmp_path, run)
    os.killpg(run.pid, signal.SIGINT)
    _, error = run.communicate(timeout=waiting.HANGS)
    said = [line for line in error.splitlines() if line and "talk" not in line]
    assert (run.returncode, said) == (130, ["interrupted; run the same command again to go on."]), error
