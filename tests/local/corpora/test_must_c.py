"""MuST-C's layout as data directories, its versions, and every fault that a corpus can have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import yaml
from contents import contents

from corpora.corpus import Choice
from corpora.must_c import check_version, prepare_must_c, read_lines
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError
from simulst.files.table import read_table

LINES = [
    "- {duration: 1.00, offset: 0.50, rW: 2, uW: 0, speaker_id: spk.1, wav: ted_1.wav}",
    "- {duration: 2.00, offset: 2.00, rW: 2, uW: 0, speaker_id: spk.1, wav: ted_1.wav}",
    "- {duration: 1.50, offset: 1.00, rW: 2, uW: 0, speaker_id: spk.10, wav: ted_2.wav}",
]
ENGLISH = ["Good morning!", "It's twenty-one.", "Thank you."]
GERMAN = ["Guten Morgen!", "Es ist einundzwanzig.", "Danke."]


def wav(path: Path, seconds: float = 5.0) -> None:
    level = 0.1 + 0.01 * int(path.stem[-1])  # talks differ
    soundfile.write(path, np.full(round(16000 * seconds), level, np.float32), 16000, subtype="PCM_16")


class Corpus:
    """Two talks and three segments under root/en-de/data/<split>; tests damage them."""

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
        return prepare_must_c(self.root, self.out, "en-de", [self.split], Choice(on_error, **more))[self.split]

    def names(self) -> list[str]:
        return list(read_table(self.out / "en-de" / self.split / "segments"))

    def dropped(self, reason: str, kept: int, what: str) -> None:
        """With "drop", `kept` segments stay and the log says `what`; with "stop", the error says the same."""
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


def inline(segment: dict[str, object], without: tuple[str, ...] = ()) -> str:
    return "- {" + ", ".join(f"{k}: {v}" for k, v in segment.items() if k not in without) + "}"


VERSIONS = {
    "1, inline without counts of words": lambda s: inline(s, without=("rW", "uW")),
    "2 and 3, inline with counts of words": inline,
    "blocks": lambda s: "\n".join(("- " if i == 0 else "  ") + f"{k}: {v}" for i, (k, v) in enumerate(s.items())),
    "blocks, further in": lambda s: "  -\n" + "\n".join(f"    {k}: {v}" for k, v in s.items()),
    "numbers as text": lambda s: json.dumps({k: str(v) for k, v in s.items()}).join(("- ", "")),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("head", ["", "\ufeff", "---\n", "# a comment\n\n"])
@pytest.mark.parametrize("version", VERSIONS)
def test_each_way_to_write_the_yaml_gives_the_same(corpus: Corpus, version: str, head: str, end: str) -> None:
    corpus.prepare("stop")
    want = contents(corpus.out)
    text = head + "\n".join(VERSIONS[version](segment) for segment in yaml.safe_load("\n".join(LINES)))
    (corpus.folder / "txt" / "dev.yaml").write_bytes(text.replace("\n", end).encode())  # without a last line end
    corpus.prepare("stop")
    assert contents(corpus.out) == want


@pytest.mark.parametrize(
    "speaker, name", [("spk.7", "spk.00007"), ("7", "00007"), ("Ann Lee", "Ann-Lee"), ("''", None)]
)
def test_forms_of_speakers(corpus: Corpus, speaker: str, name: str | None) -> None:
    corpus.write([line.replace("spk.10,", f"{speaker},") for line in LINES], ENGLISH, GERMAN)
    corpus.prepare("stop")
    assert (name or "ted_00002") in read_table(corpus.out / "en-de" / "dev" / "spk2utt")


def test_block_style_yaml_and_names_without_suffix_or_speaker(corpus: Corpus) -> None:
    blocks = ["- duration: 1.0\n  offset: 0.5\n  wav: ted_1", "- duration: x\n  offset: 0.5\n  wav: ted_1"]
    corpus.write(blocks, ENGLISH[:2], GERMAN[:2])
    corpus.dropped("bad segment", 1, "dev.yaml, line 4: bad segment: start or duration is no number")
    assert corpus.names() == ["ted_00001_ted_00001_0000500_0001500"]


def test_windows_line_ends_and_a_byte_order_mark(corpus: Corpus) -> None:
    corpus.write(LINES, ["\ufeff" + ENGLISH[0], *ENGLISH[1:]], GERMAN, end="\r\n")
    corpus.prepare("stop")
    assert list(read_table(corpus.out / "en-de" / "dev" / "text.tc.en").values()) == ENGLISH


def test_only_a_line_feed_ends_a_line(corpus: Corpus) -> None:
    corpus.write(LINES, ["Good\u2028 morning\x0b!", *ENGLISH[1:]], GERMAN)
    assert corpus.prepare("stop")["kept"] == 3


def test_a_segment_of_which_nothing_is_left(corpus: Corpus) -> None:
    """It ends so little after the file that it is clipped, and begins less than half a millisecond before its end."""
    corpus.write([*LINES[:2], "- {offset: 4.9997, duration: 0.05, speaker_id: x, wav: ted_2.wav}"], ENGLISH, GERMAN)
    corpus.dropped("past end", 2, "dev.yaml, line 3: past end: the segment ends at 5.05 s, ted_2.wav at 5.00 s")


def test_a_small_overshoot_is_clipped(corpus: Corpus) -> None:
    corpus.write([*LINES[:2], LINES[2].replace("duration: 1.50", "duration: 4.08")], ENGLISH, GERMAN)
    counts = corpus.prepare("stop")
    assert counts["clipped"] == 1 and counts["kept"] == 3
    assert read_table(corpus.out / "en-de" / "dev" / "segments")[corpus.names()[-1]] == "ted_00002 1.000 5.000"


@pytest.mark.parametrize("duration", ["0.0", "-1.5", ".nan", ".inf", "0.0001", "abc", ""])
def test_impossible_durations(corpus: Corpus, duration: str) -> None:
    corpus.write([*LINES[:2], LINES[2].replace("1.50", duration, 1)], ENGLISH, GERMAN)
    corpus.dropped("bad segment", 2, "dev.yaml, line 3: bad segment: ")


def test_duplicate_segments_and_talks(corpus: Corpus) -> None:
    corpus.write([*LINES, *LINES[:2]], [*ENGLISH, *ENGLISH[:2]], [*GERMAN, *GERMAN[:2]])
    corpus.dropped("duplicate", 3, "dev.yaml, line 4: duplicate: the same segment as in line 1")


def test_a_talk_of_the_training_that_is_tested_too(tmp_path: Path) -> None:
    Corpus(tmp_path, "dev")
    corpus = Corpus(tmp_path, "train")
    corpus.write([*LINES, LINES[2].replace("ted_2", "ted_3")], [*ENGLISH, "Bye."], [*GERMAN, "Ade."])
    wav(corpus.folder / "wav" / "ted_3.wav")
    counts = prepare_must_c(corpus.root, corpus.out, "en-de", ["train", "dev"])
    assert list(counts) == ["train", "dev"] and counts["train"]["in a test"] == 3 and counts["train"]["kept"] == 1
    with pytest.raises(SimulstError, match=r"train.yaml, line 1: the talk 'ted_00001' is also in dev"):
        prepare_must_c(corpus.root, corpus.out, "en-de", ["train", "dev"], Choice("stop"))


def test_limits_of_length_hold_for_training_only(tmp_path: Path) -> None:
    train, dev = Corpus(tmp_path / "a", "train"), Corpus(tmp_path / "b", "dev")
    counts = train.prepare("stop", seconds=(1.2, 1.8))
    assert (counts["too short"], counts["too long"], counts["kept"]) == (1, 1, 1)
    assert dev.prepare("stop", seconds=(1.2, 1.8))["kept"] == 3
    assert dev.prepare("stop", seconds=(1.2, 1.8), training=("dev",))["kept"] == 1


@pytest.mark.parametrize("name, form", VERSIONS.items())
def test_versions_are_told_apart_by_the_numbers_of_words(corpus: Corpus, name: str, form: Callable[..., str]) -> None:
    segments = yaml.safe_load("\n".join(LINES))
    corpus.write([form(segment) for segment in segments], ENGLISH, GERMAN)
    found, wrong, what = ("1", "3", "no rW") if name.startswith("1") else ("2 or 3", "1", "rW")
    assert check_version(corpus.root, "en-de", ["dev"]) == found
    for version in found.split(" or "):
        assert check_version(corpus.root, "en-de", ["dev"], version) == found
    with pytest.raises(SimulstError, match=rf"dev\.yaml: MuST-C version {found} .*have {what}.*, not {wrong}"):
        check_version(corpus.root, "en-de", ["dev"], wrong)


def test_splits_of_different_versions(tmp_path: Path) -> None:
    Corpus(tmp_path, "train")
    corpus = Corpus(tmp_path, "dev")
    corpus.write([line.replace("rW: 2, uW: 0, ", "") for line in LINES], ENGLISH, GERMAN)
    assert check_version(corpus.root, "en-de", ["train", "dev"]) == "1 and 2 or 3"
    with pytest.raises(SimulstError, match=r"dev\.yaml: MuST-C version 1"):
        check_version(corpus.root, "en-de", ["train", "dev"], "2")


def test_nothing_left_keeps_what_was_written_before(corpus: Corpus) -> None:
    corpus.prepare()
    for wav in (corpus.folder / "wav").iterdir():
        wav.unlink()
    with pytest.raises(SimulstError, match=r"no segment can be used \(no audio: 3; the first: .*ted_1.wav is missing"):
        corpus.prepare()
    assert len(corpus.names()) == 3


def test_last_lines(tmp_path: Path) -> None:
    for content, lines in (("a\nb\n", ["a", "b"]), ("a\nb", ["a", "b"]), ("", []), ("a\n\n", ["a", ""])):
        (tmp_path / "x").write_text(content)
        assert read_lines(tmp_path / "x") == lines
