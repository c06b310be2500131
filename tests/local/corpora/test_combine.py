"""Several pairs as one data directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from corpora.combine import combine_pairs
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError
from simulst.files.table import read_table


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two pairs that share a talk."""
    soundfile.write(tmp_path / "talk.wav", np.zeros(16000), 16000)
    for pair, text in (("en-de", "ein Satz"), ("en-ja", "文")):
        folder = tmp_path / pair / "train"
        folder.mkdir(parents=True)
        (folder / "wav.scp").write_text("talk ../../talk.wav\n")
        (folder / "segments").write_text("u1 talk 0.0 0.5\nu2 talk 0.5 1.0\n")
        (folder / "utt2spk").write_text("u1 s\nu2 s\n")
        (folder / f"text.tc.{pair[3:]}").write_text(f"u1 {text} 1\nu2 {text} 2\n")
        (folder / "text.lc.rm.en").write_text("u1 one\nu2 two\n")
    return tmp_path


def test_keys_are_told_apart_and_texts_tagged(data: Path) -> None:
    out = data / "both" / "train"
    combine_pairs(data, ["en-de", "en-ja"], "train", out)
    assert len(read_table(out / "utt2spk")) == 4
    utterances = {u.name: u for u in read_data_dir(out, "tc.multi")}
    assert utterances["en-de-u2"].reference == "<2de> ein Satz 2"
    assert utterances["en-ja-u1"].reference == "<2ja> 文 1"
    assert (utterances["en-ja-u2"].start, utterances["en-ja-u2"].end) == (0.5, 1.0)
    assert utterances["en-de-u1"].wav.resolve() == (data / "talk.wav").resolve()
    assert read_table(out / "text.lc.rm.en")["en-ja-u2"] == "two"
    assert read_table(out / "utt2spk")["en-de-u1"] == "en-de-s"


@pytest.mark.parametrize("several", [False, True])
def test_other_corpora_are_added(data: Path, several: bool) -> None:
    """A corpus need not have all pairs. Keys do not meet, though this one has the same talk."""
    shutil.copytree(data / "en-de", data / "how2/en-de")
    (data / "how2/en-de/train/wav.scp").write_text("talk ../../../talk.wav\n")
    pairs = ["en-de", "en-ja"][: 1 + several]
    combine_pairs(data, pairs, "train", data / "all/train", also=[data / "how2"])
    utterances = {u.name: u for u in read_data_dir(data / "all/train", "tc.multi" if several else "tc.de")}
    assert len(utterances) == 4 + 2 * several
    assert utterances["how2-en-de-u2"].reference == ("<2de> " if several else "") + "ein Satz 2"
    assert utterances["how2-en-de-u2"].wav.resolve() == (data / "talk.wav").resolve()
    with pytest.raises(SimulstError, match="en-ja: has no en-de/train"):
        combine_pairs(data, ["en-de"], "train", data / "none/train", also=[data / "en-ja"])
    with pytest.raises(SimulstError, match="two corpora are called how2"):
        combine_pairs(data, ["en-de"], "train", data / "none/train", also=[data / "how2", data / "other/../how2"])


@pytest.mark.parametrize("pairs", [["en-de", "en-de"], ["en-de", "fr-de"]])
def test_pairs_that_cannot_share_a_model(data: Path, pairs: list[str]) -> None:
    with pytest.raises(SimulstError, match="different pairs with the same source"):
        combine_pairs(data, pairs, "train", data / "both" / "train")
    assert not (data / "both").exists()


def test_other_data_are_refused(data: Path) -> None:
    out = data / "both" / "train"
    combine_pairs(data, ["en-de", "en-ja"], "train", out)
    combine_pairs(data, ["en-de", "en-ja"], "train", out)
    with pytest.raises(SimulstError, match="was begun with pairs"):
        combine_pairs(data, ["en-ja", "en-de"], "train", out)
    (data / "en-ja" / "train" / "text.tc.ja").write_text("u1 本\nu2 本\n")
    with pytest.raises(SimulstError, match="was begun with data"):
        combine_pairs(data, ["en-de", "en-ja"], "train", out)
    combine_pairs(data, ["en-de", "en-ja"], "train", out, force=True)
    assert read_table(out / "text.tc.multi")["en-ja-u1"] == "<2ja> 本"
