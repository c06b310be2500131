"""MuST-C's layout as data directories, and each ugly thing that a corpus can hold."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile

from simulst.data.datadir import read_data_dir, read_table
from simulst.data.mini import make_mini
from simulst.data.must_c import lower_without_punctuation, prepare_must_c, read_lines, table
from simulst.errors import SimulstError

LINES = [
    "- {duration: 1.00, offset: 0.50, rW: 2, uW: 0, speaker_id: spk.1, wav: ted_1.wav}",
    "- {duration: 2.00, offset: 2.00, rW: 2, uW: 0, speaker_id: spk.1, wav: ted_1.wav}",
    "- {duration: 1.50, offset: 1.00, rW: 2, uW: 0, speaker_id: spk.10, wav: ted_2.wav}",
]
ENGLISH = ["Good morning!", "It's twenty-one.", "Thank you."]
GERMAN = ["Guten Morgen!", "Es ist einundzwanzig.", "Danke."]


def wav(path: Path, seconds: float = 5.0) -> None:
    soundfile.write(path, np.zeros(round(16000 * seconds), np.float32) + 0.1, 16000, subtype="PCM_16")


class Corpus:
    """Two talks and three segments under root/en-de/data/<split>, to be spoiled."""

    def __init__(self, root: Path, split: str = "dev") -> None:
        self.root, self.out, self.split = root / "corpus", root / "out", split
        self.folder = self.root / "en-de" / "data" / split
        (self.folder / "txt").mkdir(parents=True)
        (self.folder / "wav").mkdir()
        for name in ("ted_1.wav", "ted_2.wav"):
            wav(self.folder / "wav" / name)
        self.write(LINES, ENGLISH, GERMAN)

    def write(self, lines: list[str], english: list[str], german: list[str], end: str = "\n") -> None:
        for suffix, content in (("yaml", lines), ("en", english), ("de", german)):
            data = "".join(line + end for line in content).encode()
            (self.folder / "txt" / f"{self.split}.{suffix}").write_bytes(data)

    def prepare(self, on_error: str = "drop", **more) -> Counter[str]:  # type: ignore[no-untyped-def]
        return prepare_must_c(self.root, self.out, "en-de", [self.split], on_error, **more)[self.split]

    def names(self) -> list[str]:
        return list(read_table(self.out / "en-de" / self.split / "segments"))

    def dropped(self, reason: str, kept: int, what: str) -> None:
        """With "drop" so many are kept and the log says `what`; with "stop" the same words are the error."""
        counts = self.prepare()
        assert counts["kept"] == kept and counts[reason] == counts["found"] - kept > 0
        assert what in (self.out / "en-de" / self.split / "dropped.log").read_text()
        with pytest.raises(SimulstError) as error:
            self.prepare("stop")
        assert what.replace(f": {reason}:", ":") in str(error.value)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path)


def test_the_tables(corpus: Corpus) -> None:
    counts = corpus.prepare("stop")
    folder = corpus.out / "en-de" / "dev"
    first = "spk.00001_ted_00001_0000500_0001500"
    assert corpus.names() == [
        first, "spk.00001_ted_00001_0002000_0004000", "spk.00010_ted_00002_0001000_0002500"
    ]  # fmt: skip
    assert read_table(folder / "segments")[first] == "ted_00001 0.500 1.500"
    assert read_table(folder / "utt2spk")[first] == "spk.00001"
    assert read_table(folder / "spk2utt")["spk.00001"].split() == corpus.names()[:2]
    assert list(read_table(folder / "text.tc.de").values()) == GERMAN
    assert list(read_table(folder / "text.tc.en").values()) == ENGLISH
    assert list(read_table(folder / "text.lc.rm.en").values()) == ["good morning", "it's twenty one", "thank you"]
    assert Path(read_table(folder / "wav.scp")["ted_00002"]).name == "ted_2.wav"
    assert (counts["found"], counts["kept"], counts["talks"], counts["clipped"]) == (3, 3, 2, 0)
    assert [u.reference for u in read_data_dir(folder, "tc.de")] == GERMAN
    assert not list(corpus.out.rglob("*.part"))
    for name in ("segments", "utt2spk", "spk2utt", "wav.scp", "text.tc.de"):
        lines = (folder / name).read_text().splitlines()
        assert lines == sorted(lines)


def test_the_mini_corpus_comes_through_whole(tmp_path: Path) -> None:
    sizes = {"train": 3, "dev": 1, "tst-COMMON": 1, "tst-HE": 1}
    make_mini(tmp_path / "mini", sizes, ["en-de", "en-ja"])
    for pair in ("en-de", "en-ja"):
        counts = prepare_must_c(tmp_path / "mini", tmp_path / "data", pair, on_error="stop")
        assert {split: count["kept"] for split, count in counts.items()} == sizes
        text = table(counts)
        assert text.splitlines()[0].split() == ["split", "found", "kept", "talks", "minutes"]
    assert read_data_dir(tmp_path / "data" / "en-ja" / "dev", "tc.ja")[0].reference.endswith("。")


def test_block_style_yaml_and_names_without_suffix_or_speaker(corpus: Corpus) -> None:
    blocks = ["- duration: 1.0\n  offset: 0.5\n  wav: ted_1", "- duration: x\n  offset: 0.5\n  wav: ted_1"]
    corpus.write(blocks, ENGLISH[:2], GERMAN[:2])
    corpus.dropped("bad segment", 1, "dev.yaml, line 4: bad segment: offset or duration is no number")
    assert corpus.names() == ["ted_00001_ted_00001_0000500_0001500"]


def test_windows_line_ends_and_a_byte_order_mark(corpus: Corpus) -> None:
    corpus.write(LINES, ["\ufeff" + ENGLISH[0], *ENGLISH[1:]], GERMAN, end="\r\n")
    corpus.prepare("stop")
    assert list(read_table(corpus.out / "en-de" / "dev" / "text.tc.en").values()) == ENGLISH


def test_only_a_line_feed_ends_a_line(corpus: Corpus) -> None:
    corpus.write(LINES, ["Good\u2028 morning\x0b!", *ENGLISH[1:]], GERMAN)
    assert corpus.prepare("stop")["kept"] == 3


def test_a_missing_wav(corpus: Corpus) -> None:
    (corpus.folder / "wav" / "ted_1.wav").unlink()
    corpus.dropped("no wav", 1, f"dev.yaml, line 1: no wav: {corpus.folder / 'wav' / 'ted_1.wav'} is missing")


@pytest.mark.parametrize("size, what", [(0, "not readable"), (30, "not readable"), (100_000, "truncated")])
def test_a_damaged_wav(corpus: Corpus, size: int, what: str) -> None:
    path = corpus.folder / "wav" / "ted_2.wav"
    path.write_bytes(path.read_bytes()[:size])
    counts = corpus.prepare()
    assert counts["bad wav"] == 1 and counts["kept"] == 2
    log = (corpus.out / "en-de" / "dev" / "dropped.log").read_text()
    assert "dev.yaml, line 3: bad wav" in log and what in log
    with pytest.raises(SimulstError, match=what):
        corpus.prepare("stop")


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("on_error", ["drop", "stop"])
def test_another_number_of_segments_than_lines_always_stops(corpus: Corpus, change: int, on_error: str) -> None:
    german = GERMAN[:change] if change < 0 else [*GERMAN, "Mehr."]
    corpus.write(LINES, ENGLISH, german)
    with pytest.raises(
        SimulstError, match=rf"3 segments, but {3 + change} lines in dev.de, so line {min(3, 3 + change) + 1}"
    ):
        corpus.prepare(on_error)
    assert not (corpus.out / "en-de" / "dev").exists()


def test_a_segment_past_the_end(corpus: Corpus) -> None:
    corpus.write([*LINES[:2], LINES[2].replace("duration: 1.50", "duration: 4.20")], ENGLISH, GERMAN)
    corpus.dropped("past end", 2, "dev.yaml, line 3: past end: the segment ends at 5.20 s, ted_2.wav at 5.00 s")


def test_a_small_overshoot_is_clipped(corpus: Corpus) -> None:
    corpus.write([*LINES[:2], LINES[2].replace("duration: 1.50", "duration: 4.08")], ENGLISH, GERMAN)
    counts = corpus.prepare("stop")
    assert counts["clipped"] == 1 and counts["kept"] == 3
    assert corpus.names()[-1] == "spk.00010_ted_00002_0001000_0005000"


@pytest.mark.parametrize("duration", ["0.0", "-1.5", ".nan", ".inf", "0.0001", "abc", ""])
def test_lengths_that_cannot_be(corpus: Corpus, duration: str) -> None:
    corpus.write([*LINES[:2], LINES[2].replace("1.50", duration, 1)], ENGLISH, GERMAN)
    corpus.dropped("bad segment", 2, "dev.yaml, line 3: bad segment: ")


def test_a_segment_without_wav_and_a_path_instead_of_a_name(corpus: Corpus) -> None:
    corpus.write(["- {duration: 1, offset: 0}", LINES[1], LINES[2].replace("ted_2", "../ted_2")], ENGLISH, GERMAN)
    corpus.dropped("bad segment", 1, "line 1: bad segment: 'wav' is missing")
    corpus.write(["- 5", *LINES[1:]], ENGLISH, GERMAN)
    corpus.dropped("bad segment", 2, "line 1: bad segment: this is no segment")


@pytest.mark.parametrize(
    "english, german, side", [("", "Danke.", "en"), ("...", "Danke.", "en"), ("Yes.", " \t", "de")]
)
def test_empty_lines(corpus: Corpus, english: str, german: str, side: str) -> None:
    corpus.write(LINES, [ENGLISH[0], english, ENGLISH[2]], [GERMAN[0], german, GERMAN[2]])
    corpus.dropped("empty", 2, f"dev.{side}, line 2: empty: there are no words")


def test_duplicate_segments_and_talks(corpus: Corpus) -> None:
    corpus.write([*LINES, *LINES[:2]], [*ENGLISH, *ENGLISH[:2]], [*GERMAN, *GERMAN[:2]])
    corpus.dropped("duplicate", 3, "dev.yaml, line 4: duplicate: the segment of line 1 again")


def test_a_talk_of_the_training_that_is_tested_too(tmp_path: Path) -> None:
    Corpus(tmp_path, "dev")
    corpus = Corpus(tmp_path, "train")
    corpus.write([*LINES, LINES[2].replace("ted_2", "ted_3")], [*ENGLISH, "Bye."], [*GERMAN, "Ade."])
    wav(corpus.folder / "wav" / "ted_3.wav")
    counts = prepare_must_c(corpus.root, corpus.out, "en-de", ["train", "dev"])
    assert list(counts) == ["train", "dev"] and counts["train"]["in a test"] == 3 and counts["train"]["kept"] == 1
    with pytest.raises(SimulstError, match=r"train.yaml, line 1: the talk 'ted_00001' is also in dev"):
        prepare_must_c(corpus.root, corpus.out, "en-de", ["train", "dev"], "stop")


def test_limits_of_length_hold_for_training_only(tmp_path: Path) -> None:
    train, dev = Corpus(tmp_path / "a", "train"), Corpus(tmp_path / "b", "dev")
    counts = train.prepare("stop", seconds=(1.2, 1.8))
    assert (counts["too short"], counts["too long"], counts["kept"]) == (1, 1, 1)
    assert dev.prepare("stop", seconds=(1.2, 1.8))["kept"] == 3
    assert dev.prepare("stop", seconds=(1.2, 1.8), filtered=["dev"])["kept"] == 1


@pytest.mark.parametrize("suffix", ["en", "de", "yaml"])
def test_text_that_is_not_utf_8(corpus: Corpus, suffix: str) -> None:
    path = corpus.folder / "txt" / f"dev.{suffix}"
    path.write_bytes(path.read_bytes().replace(b"\n", b" \xfc\n", 2).replace(b" \xfc\n", b"\n", 1))
    with pytest.raises(SimulstError, match=rf"dev\.{suffix}, line 2: not UTF-8"):
        corpus.prepare()


def test_what_is_no_yaml(corpus: Corpus) -> None:
    corpus.write([LINES[0], "- {duration: 1", LINES[2]], ENGLISH, GERMAN)
    with pytest.raises(SimulstError, match=r"dev\.yaml, line \d: not YAML"):
        corpus.prepare()
    corpus.write(["duration: 1"], ENGLISH, GERMAN)
    with pytest.raises(SimulstError, match="no list of segments"):
        corpus.prepare()
    corpus.write([], [], [])
    with pytest.raises(SimulstError, match="no segment can be used"):
        corpus.prepare()


def test_what_is_not_there(corpus: Corpus) -> None:
    with pytest.raises(SimulstError, match="no language pair 'en-fr'; it has en-de"):
        prepare_must_c(corpus.root, corpus.out, "en-fr")
    with pytest.raises(SimulstError, match="no split 'tst-HE'; it has dev"):
        prepare_must_c(corpus.root, corpus.out, "en-de", ["dev", "tst-HE"])
    with pytest.raises(SimulstError, match="choose drop or stop"):
        corpus.prepare("ignore")
    (corpus.folder / "txt" / "dev.de").unlink()
    with pytest.raises(SimulstError, match=r"dev\.de: cannot be read"):
        corpus.prepare()


def test_nothing_left_keeps_what_was_written_before(corpus: Corpus) -> None:
    corpus.prepare()
    shutil.rmtree(corpus.folder / "wav")
    with pytest.raises(SimulstError, match=r"no segment can be used \(no wav: 3\)"):
        corpus.prepare()
    assert len(corpus.names()) == 3


def test_text_for_recognition() -> None:
    assert (
        lower_without_punctuation("“It’s 21% — isn't it?” (Laughter) 'yes' a_b") == "it's 21 isn't it laughter yes a b"
    )
    assert lower_without_punctuation("Cafe\u0301, naïve.") == "café naïve"
    assert lower_without_punctuation("— ' …") == ""


def test_last_lines(tmp_path: Path) -> None:
    for content, lines in (("a\nb\n", ["a", "b"]), ("a\nb", ["a", "b"]), ("", []), ("a\n\n", ["a", ""])):
        (tmp_path / "x").write_text(content)
        assert read_lines(tmp_path / "x") == lines


def test_the_script(corpus: Corpus) -> None:
    script = Path(__file__).parents[2] / "local" / "prepare_must_c.py"
    command = [sys.executable, str(script), "--root", str(corpus.root), "--out", str(corpus.out), "--splits"]
    done = subprocess.run([*command, "dev"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("en-de, segments:")
    failed = subprocess.run([*command, "test"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1 and "no split 'test'" in failed.stderr
