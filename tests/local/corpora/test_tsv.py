"""Tables of utterances as data directories."""

from __future__ import annotations

import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from corpora.corpus import Choice
from corpora.must_c import prepare_must_c
from corpora.tsv import Columns, _name, prepare_tsv
from make_mini import make_mini
from simulst.audio.read import load_audio
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError
from simulst.files.table import read_table

HEADER = ("client_id", "path", "sentence", "translation")
ROWS = [
    ("b", "de_1.wav", 'Er sagte: "Ja.', "He said “yes”."),
    ("a", "de_2.flac", "Guten Morgen!", "Good morning!"),
    ("b", "de_3.mp3", "Danke.", "Thank you."),
]


class Corpus:
    """Three files of 2 s and a table of them."""

    def __init__(self, root: Path) -> None:
        self.root, self.out, self.path = root, root / "out", root / "dev.tsv"
        (root / "clips").mkdir()
        for row in ROWS:
            soundfile.write(root / "clips" / row[1], 0.1 * np.sin(np.arange(32000) / 20), 16000)
        self.write([HEADER, *ROWS])

    def write(self, rows: list[tuple[str, ...]], end: str = "\n", path: Path | None = None) -> None:
        (path or self.path).write_bytes(end.join("\t".join(row) for row in rows).encode())

    def prepare(self, on_error: str = "drop", **columns: str) -> Counter[str]:
        chosen = Columns(**{"speaker": "client_id", **columns})
        files = {"dev": self.path}
        return prepare_tsv(files, self.out, "de-en", chosen, self.root / "clips", Choice(on_error))["dev"]

    def table(self, name: str) -> dict[str, str]:
        return read_table(self.out / "de-en" / "dev" / name)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path)


def test_the_tables(corpus: Corpus) -> None:
    counts = corpus.prepare("stop")
    assert (counts["found"], counts["kept"], counts["talks"]) == (3, 3, 3)
    assert corpus.table("utt2spk") == {"a-de_2": "a", "b-de_1": "b", "b-de_3": "b"}
    assert corpus.table("spk2utt") == {"a": "a-de_2", "b": "b-de_1 b-de_3"}
    assert corpus.table("text.tc.en")["b-de_1"] == "He said “yes”."  # quotes have no special meaning
    assert corpus.table("text.lc.rm.de")["b-de_1"] == "er sagte ja"
    assert corpus.table("segments")["a-de_2"] == "de_2 0.000 2.000"
    for utterance in read_data_dir(corpus.out / "de-en" / "dev", "tc.en"):
        assert load_audio(utterance.wav, utterance.start, utterance.end).size == pytest.approx(32000, abs=2400)


def test_without_speakers_each_utterance_is_one(corpus: Corpus) -> None:
    prepare_tsv({"dev": corpus.path}, corpus.out, "de-en", Columns(), corpus.root / "clips")
    assert corpus.table("utt2spk") == {"de_1": "de_1", "de_2": "de_2", "de_3": "de_3"}


def test_other_columns_in_another_order_and_a_row_without_a_speaker(corpus: Corpus) -> None:
    rows = [("tgt", "x", "who", "audio", "src"), *((r[3], "", "", r[1], r[2]) for r in ROWS)]
    corpus.write(rows)
    corpus.prepare("stop", speaker="who", audio="audio", source="src", target="tgt")
    assert corpus.table("utt2spk")["de_1"] == "de_1" and corpus.table("text.tc.en")["de_3"] == "Thank you."


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("head", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark(corpus: Corpus, end: str, head: str) -> None:
    corpus.write([(head + HEADER[0], *HEADER[1:]), *ROWS[:2], (*ROWS[2][:3], "Thank\u2028you\x0b.")], end)
    assert corpus.prepare("stop")["kept"] == 3
    assert corpus.table("text.tc.en")["b-de_3"] == "Thank you ."


def test_parts_of_files(corpus: Corpus) -> None:
    header = (*HEADER, "from", "to", "long")
    times = [("0.5", "1.25", "0.75"), ("1", "2", "1"), ("0", "2.05", "2.05")]
    corpus.write([header, *((*ROWS[0], *t) for t in times)])
    counts = corpus.prepare("stop", start="from", end="to")
    want = {"b-de_1-0000500-0001250": "de_1 0.500 1.250", "b-de_1-0001000-0002000": "de_1 1.000 2.000"}
    assert corpus.table("segments") == {**want, "b-de_1-0000000-0002050": "de_1 0.000 2.000"}
    assert (counts["talks"], counts["clipped"]) == (1, 1)
    before = corpus.table("segments")
    corpus.prepare("stop", start="from", duration="long")
    assert corpus.table("segments") == before


def test_a_column_that_names_the_split(corpus: Corpus) -> None:
    path = corpus.root / "all.tsv"
    splits = ("train", "dev", "validated")
    corpus.write([(*HEADER, "split"), *((*row, split) for row, split in zip(ROWS, splits, strict=True))], path=path)
    columns = Columns(split="split")
    counts = prepare_tsv({"train": path, "dev": path}, corpus.out, "de-en", columns, corpus.root / "clips")
    assert {split: (count["found"], count["kept"]) for split, count in counts.items()} == {
        "train": (1, 1), "dev": (1, 1)
    }  # fmt: skip
    assert list(corpus.table("segments")) == ["de_2"]
    assert list(read_table(corpus.out / "de-en/train/text.tc.en").values()) == ['He said "yes."']


@pytest.mark.parametrize("way", ["the same", "another spelling", "an absolute path", "a link", "a hard link", "a copy"])
def test_a_test_recording_is_not_trained_on_by_any_name(tmp_path: Path, way: str) -> None:
    clips = tmp_path / "clips"
    clips.mkdir()
    for name in "abc":
        soundfile.write(clips / f"{name}.wav", np.random.default_rng(ord(name)).uniform(-0.1, 0.1, 32000), 16000)
    other = {"the same": "a.wav", "another spelling": "../clips/a.wav", "an absolute path": f"{clips}/a.wav"}
    if way == "a link":
        (clips / "d.wav").symlink_to("a.wav")
    elif way == "a hard link":
        (clips / "d.wav").hardlink_to(clips / "a.wav")
    elif way == "a copy":
        (clips / "d.wav").write_bytes((clips / "a.wav").read_bytes())

    def table(split: str, *files: str) -> Path:
        path = tmp_path / f"{split}.tsv"
        lines = [f"{file}\tein Satz\ta sentence" for file in files]
        path.write_text("\n".join(["path\tsentence\ttranslation", *lines]))
        return path

    files = {"train": table("train", other.get(way, "d.wav"), "b.wav"), "tst": table("tst", "a.wav", "c.wav")}
    counts = prepare_tsv(files, tmp_path / "out", "de-en", Columns(), clips)["train"]
    assert counts["in a test"] == 1 and counts["kept"] == 1
    assert "is also in tst" in (tmp_path / "out/de-en/train/dropped.log").read_text()


@pytest.mark.parametrize(
    ("field", "hint"), [('"He said: ""Yes"" and left."', True), ('"Good-bye," said the boy.', False), ('"Yes."', False)]
)
def test_marks_of_a_writer_of_csv(corpus: Corpus, field: str, hint: bool, caplog: pytest.LogCaptureFixture) -> None:
    corpus.write([HEADER, ("b", "de_1.wav", "Ja.", field), *ROWS[1:]])
    corpus.prepare()
    assert field in corpus.table("text.tc.en").values()
    assert any("1 rows have a field that looks quoted" in record.getMessage() for record in caplog.records) == hint


def test_the_same_speech_as_must_c_gives_the_same_utterances(tmp_path: Path) -> None:
    make_mini(tmp_path / "mini", {"train": 3, "dev": 1, "tst-COMMON": 1, "tst-HE": 1})
    prepare_must_c(tmp_path / "mini", tmp_path / "a", "en-de", ["train"])
    one = read_data_dir(tmp_path / "a/en-de/train", "tc.de")
    sources = read_table(tmp_path / "a/en-de/train/text.tc.en")
    rows = [("path", "s", "e", "sentence", "translation")]
    rows += [(str(u.wav), str(u.start), str(u.end), sources[u.name], u.reference) for u in one]
    (tmp_path / "train.tsv").write_text("\n".join("\t".join(row) for row in rows))
    prepare_tsv({"train": tmp_path / "train.tsv"}, tmp_path / "b", "en-de", Columns(start="s", end="e"))
    other = read_data_dir(tmp_path / "b/en-de/train", "tc.de")
    key = [(u.wav, u.start, u.end, u.reference) for u in one]
    assert sorted(key, key=str) == sorted(((u.wav, u.start, u.end, u.reference) for u in other), key=str)
    for name in ("text.tc.en", "text.lc.rm.en"):
        texts = [sorted(read_table(tmp_path / x / "en-de/train" / name).values()) for x in "ab"]
        assert texts[0] == texts[1]


# ---- bad input ----


@pytest.mark.parametrize("start, end", [("x", "1"), ("0", ""), ("2", "1")])
def test_faulty_times(corpus: Corpus, start: str, end: str) -> None:
    corpus.write([(*HEADER, "s", "e"), *((*row, "0", "1") for row in ROWS[:2]), (*ROWS[2], start, end)])
    counts = corpus.prepare(start="s", end="e")
    assert counts["bad segment"] == 1 and counts["kept"] == 2


@pytest.mark.parametrize("name", ["a" * 300 + ".wav", "a\0.wav", "/", "..", "clips"])
def test_names_that_no_audio_file_can_have(corpus: Corpus, name: str) -> None:
    corpus.write([HEADER, *ROWS[:2], ("b", name, "Danke.", "Thank you.")])
    counts = corpus.prepare()
    assert counts["no audio"] == 1 and counts["kept"] == 2


# ---- names ----

NAMES = st.text(st.sampled_from("aB1_-./ é\u3000"), min_size=1, max_size=60)


@given(st.lists(NAMES, min_size=2, max_size=2, unique=True))
def test_names_are_unique_and_can_be_keys_and_file_names(texts: list[str]) -> None:
    names = [_name(text) for text in texts]
    assert names[0] != names[1]
    for name in names:
        assert name and not set(name) & set("/- \u3000") and len(name) <= 48 and len(name.split()) == 1


@given(st.lists(st.tuples(NAMES, NAMES), max_size=8))
def test_utterances_sort_as_their_speakers_do(pairs: list[tuple[str, str]]) -> None:
    rows = sorted((f"{_name(speaker)}-{_name(audio)}", _name(speaker)) for speaker, audio in pairs)
    assert [speaker for _, speaker in rows] == sorted(speaker for _, speaker in rows)


def test_names_of_common_voice(corpus: Corpus) -> None:
    assert _name("common_voice_de_17298952") == "common_voice_de_17298952"
    assert _name("f" * 128) == "f" * 24 + "." + _name("f" * 128)[-10:]


@pytest.mark.parametrize("there", ["NFC", "NFD"])
@pytest.mark.parametrize("listed", ["NFC", "NFD"])
def test_files_are_found_in_any_normal_form(corpus: Corpus, there: str, listed: str) -> None:
    name = "né_ö.wav"
    (corpus.root / "clips/de_1.wav").rename(corpus.root / "clips" / unicodedata.normalize(there, name))
    corpus.write([HEADER, ("b", unicodedata.normalize(listed, name), "Ja.", "Yes.")])
    assert corpus.prepare()["kept"] == 1
    [(recording, file)] = corpus.table("wav.scp").items()
    assert Path(file).is_file() and recording.startswith("né_ö")


@pytest.mark.parametrize("samples", [1, 7])
def test_audio_of_half_a_millisecond(corpus: Corpus, samples: int) -> None:
    """A whole file has no end to name."""
    soundfile.write(corpus.root / "clips/de_2.flac", np.full(samples, 0.1), 16000)
    with pytest.raises(SimulstError, match=r"line 3: the segment begins at 0.00 s, de_2\.flac ends at 0.00 s"):
        corpus.prepare("stop")
