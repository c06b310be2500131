"""Extraction over processes and interruptions, and the data directories that come of it."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tiny_espnet
import torch

from simulst.data.datadir import read_data_dir, write_data_dir
from simulst.errors import SimulstError
from simulst.prefix import extract as module
from simulst.prefix.extract import Options, extract
from simulst.prefix.pairs import write_pairs
from simulst.runs.folder import Task
from simulst.training.tokens import train_tokens

SECONDS = {"a-1": (0.0, 1.9), "a-2": (2.0, 5.2), "a-3": (5.2, 5.9), "b-1": (0.0, 4.0)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings, four utterances, and a model at exp/st."""
    folder = tmp_path_factory.mktemp("corpus")
    tiny_espnet.write(folder, "transformer", seed=4)
    noise = np.random.default_rng(0)
    for name in "ab":
        wave = noise.normal(0, 0.1, 96_000) * np.sin(np.arange(96_000) / 5000)
        soundfile.write(folder / f"{name}.wav", wave, 16_000)
    write_data_dir(
        folder / "train",
        {
            "wav.scp": {"a": "../a.wav", "b": "../b.wav"},
            "segments": {name: f"{name[0]} {start} {end}" for name, (start, end) in SECONDS.items()},
            "utt2spk": {name: name[0] for name in SECONDS},
            "text.tc.de": {name: f"der Satz {name}" for name in SECONDS},
        },
    )
    return folder


def task(corpus: Path) -> Task:
    return Task(str(corpus / "exp" / "st"), "en", "de")


def test_shards_and_interruptions_change_nothing(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = extract(task(corpus), corpus / "train", tmp_path / "whole", Options(48, 2))
    assert counts["utterances"] == 4 and counts["short"] == 0 and counts["prefixes"] == 3 + 6 + 1 + 8
    whole = (tmp_path / "whole" / "prefixes.jsonl").read_text()
    assert [json.loads(line)["utterance"] for line in whole.splitlines()] == list(SECONDS)

    monkeypatch.setattr(module, "SHARD_UTTERANCES", 1)
    done: list[int] = []

    def dies(*args: Any) -> Any:
        done.append(1)
        if len(done) == 3:
            raise KeyboardInterrupt
        return work(*args)

    work = module._work
    monkeypatch.setattr(module, "_work", dies)
    with pytest.raises(KeyboardInterrupt):
        extract(task(corpus), corpus / "train", tmp_path / "killed", Options(48, 2))
    assert not (tmp_path / "killed" / "prefixes.jsonl").exists()
    assert extract(task(corpus), corpus / "train", tmp_path / "killed", Options(48, 2)) == counts
    assert (tmp_path / "killed" / "prefixes.jsonl").read_text() == whole
    assert len(done) == 3 + 2, "what was done is not done again"


def test_another_model_languages_or_utterances_are_refused(corpus: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    shutil.copytree(corpus, here, symlinks=True)
    extract(task(here), here / "train", tmp_path / "out", Options(100, 1))
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    whole = (tmp_path / "out" / "prefixes.jsonl").read_text()

    def refused(name: str, changed: Task | None = None, *options: Any) -> None:
        with pytest.raises(SimulstError, match=f"was begun with {name}.*--force"):
            extract(changed or task(here), here / "train", tmp_path / "out", Options(*options or (100, 1)))

    refused("tau 100, not 48", None, 48, 1)
    refused("beam 1, not 3", None, 100, 3)
    refused("open_end False, not True", None, 100, 1, True)
    refused("options", Task(str(here / "exp/st"), "en", "de", (("checkpoint", "3epoch.pth"),)))
    refused("languages", Task(str(here / "exp/st"), "fr", "de"))
    with pytest.raises(SimulstError, match="no such model folder"):
        extract(Task(str(here / "none"), "en", "de"), here / "train", tmp_path / "out", Options(100, 1), force=True)
    assert (tmp_path / "out" / "prefixes.jsonl").read_text() == whole
    state = torch.load(here / "exp/st/valid.acc.ave_3best.pth", weights_only=True)
    torch.save({name: tensor + 0.01 for name, tensor in state.items()}, here / "exp/st/valid.acc.ave_3best.pth")
    refused("weights")
    torch.save(state, here / "exp/st/valid.acc.ave_3best.pth")
    for file in ("segments", "utt2spk", "text.tc.de"):
        lines = (here / "train" / file).read_text().splitlines(keepends=True)
        (here / "train" / file).write_text("".join(lines[:-1]))
    refused("weights|utterances")
    assert extract(task(here), here / "train", tmp_path / "out", Options(100, 1), force=True)["utterances"] == 3
    assert (tmp_path / "out" / "thesis.txt").read_text() == "mine"


def test_an_empty_model_and_utterances_shorter_than_tau(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert extract(task(corpus), corpus / "train", tmp_path / "short", Options(100, 1))["short"] == 1
    monkeypatch.setattr(module.Translator, "__call__", lambda _, questions: [q.forced for q in questions])
    with pytest.raises(SimulstError, match="translates every utterance"):
        extract(task(corpus), corpus / "train", tmp_path / "empty", Options(100, 1))


def test_faulty_audio_keeps_the_rest(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARD_UTTERANCES", 1)
    (corpus / "b.wav").rename(corpus / "b.gone")
    with pytest.raises(SimulstError, match=r"1 of 4 shards failed.*b\.wav"):
        extract(task(corpus), corpus / "train", tmp_path, Options(100, 1))
    (corpus / "b.gone").rename(corpus / "b.wav")
    assert extract(task(corpus), corpus / "train", tmp_path, Options(100, 1))["utterances"] == 4


def test_a_model_that_was_trained_for_wait_k(corpus: Path, tmp_path: Path) -> None:
    tiny_espnet.write(tmp_path, "transformer", wait_k=3)
    with pytest.raises(SimulstError, match="was trained for wait-k; extract prefix pairs with an offline model"):
        extract(task(tmp_path), corpus / "train", tmp_path / "out", Options(100, 1))


PAIRS = {
    "a-1": [{"frames": 100, "text": "Ich habe"}],
    "a-2": [{"frames": 100, "text": "Nun"}, {"frames": 300, "text": "Nun sind wir da"}],
    "a-3": [],
    "b-1": [{"frames": 200, "text": "Und sie alle"}],
}


@pytest.fixture
def prefixes(tmp_path: Path) -> Path:
    path = tmp_path / "prefixes.jsonl"
    lines = [
        {"utterance": name, "tau": 100, "frames": 320, "offline": "x", "pairs": pairs} for name, pairs in PAIRS.items()
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_pairs_become_segments_that_end_early(corpus: Path, tmp_path: Path, prefixes: Path) -> None:
    write_pairs(corpus / "train", prefixes, tmp_path / "out", "de")
    counts = json.loads((tmp_path / "out" / "pairs.json").read_text())
    assert counts == {"pairs": 4, "kept": 4}
    found = [(u.name, u.wav.name, u.start, u.end, u.reference) for u in read_data_dir(tmp_path / "out", "tc.de")]
    assert found == [
        ("a-1-p00100", "a.wav", 0.0, 1.0, "Ich habe"),
        ("a-2-p00100", "a.wav", 2.0, 3.0, "Nun"),
        ("a-2-p00300", "a.wav", 2.0, 5.0, "Nun sind wir da"),
        ("b-1-p00200", "b.wav", 0.0, 2.0, "Und sie alle"),
    ]


@pytest.mark.parametrize(
    ("ratio", "kept"),
    [
        (100, {"a-1-p00100", "a-2-p00100", "a-2-p00300", "b-1-p00200"}),
        (66.7, {"a-1-p00100", "b-1-p00200"}),
        (50, {"a-1-p00100"}),
    ],
)
def test_long_sources_of_short_targets_are_left_out(
    corpus: Path, tmp_path: Path, prefixes: Path, ratio: float, kept: set[str]
) -> None:
    write_pairs(corpus / "train", prefixes, tmp_path / "out", "de", ratio)
    counts = json.loads((tmp_path / "out" / "pairs.json").read_text())
    assert {u.name for u in read_data_dir(tmp_path / "out", "tc.de")} == kept
    assert counts.get("filtered", 0) == 4 - len(kept)


def test_tokens_count_where_words_are_not_apart(corpus: Path, tmp_path: Path, prefixes: Path) -> None:
    (corpus / "train" / "text.tc.ja").write_text("".join(f"{name} 文\n" for name in SECONDS))
    text = tmp_path / "text"
    text.write_text(
        "".join(f"{n} {word}\n" for n, word in enumerate(["Nun", "Nun sind wir", "Ich habe", "da sie"] * 9))
    )
    train_tokens([text], tmp_path / "char", 0, "char")
    write_pairs(corpus / "train", prefixes, tmp_path / "out", "ja", 30.0, tokens=tmp_path / "char")
    counts = json.loads((tmp_path / "out" / "pairs.json").read_text())
    assert counts == {"pairs": 4, "kept": 4}  # at most 100 frames for the four characters of "▁Nun"
    train_tokens([text], tmp_path / "bpe", 30, "bpe")
    write_pairs(corpus / "train", prefixes, tmp_path / "out2", "ja", 30.0, tokens=tmp_path / "bpe")
    counts = json.loads((tmp_path / "out2" / "pairs.json").read_text())
    assert "a-2-p00100" not in {u.name for u in read_data_dir(tmp_path / "out2", "tc.ja")} and counts["filtered"] >= 1
    with pytest.raises(SimulstError, match="counts tokens of the model for 'ja'; give --tokens"):
        write_pairs(corpus / "train", prefixes, tmp_path / "out3", "ja", 30.0)
    with pytest.raises(SimulstError, match=r"bpe.model: no SentencePiece model"):
        write_pairs(corpus / "train", prefixes, tmp_path / "out3", "ja", 30.0, tokens=tmp_path)
    (corpus / "train" / "text.tc.ja").unlink()


def test_whole_utterances_beside_the_pairs(corpus: Path, tmp_path: Path, prefixes: Path) -> None:
    write_pairs(corpus / "train", prefixes, tmp_path / "out", "de", 50, whole=True)
    counts = json.loads((tmp_path / "out" / "pairs.json").read_text())
    assert counts == {"pairs": 4, "filtered": 3, "kept": 1, "whole": 4}
    found = {u.name: (u.start, u.end, u.reference) for u in read_data_dir(tmp_path / "out", "tc.de")}
    assert found["a-2"] == (2.0, 5.2, "der Satz a-2") and len(found) == 5


def test_other_pairs_are_not_replaced(corpus: Path, tmp_path: Path, prefixes: Path) -> None:
    write_pairs(corpus / "train", prefixes, tmp_path / "out", "de")
    written = (tmp_path / "out" / "segments").stat().st_mtime_ns
    write_pairs(corpus / "train", prefixes, tmp_path / "out", "de")
    assert (tmp_path / "out" / "segments").stat().st_mtime_ns == written
    with pytest.raises(SimulstError, match="was begun with whole False, not True"):
        write_pairs(corpus / "train", prefixes, tmp_path / "out", "de", whole=True)
    prefixes.write_text(prefixes.read_text().replace("Ich habe", "Er hat"))
    with pytest.raises(SimulstError, match="was begun with pairs "):
        write_pairs(corpus / "train", prefixes, tmp_path / "out", "de")
    write_pairs(corpus / "train", prefixes, tmp_path / "out", "de", force=True)
    assert "Er hat" in (tmp_path / "out" / "text.tc.de").read_text()
