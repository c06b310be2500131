"""docs/new_pair.md, followed to the letter: its commands run in a copy of the checkout, on a small corpus of tables."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pages
import pytest
import soundfile
import tracked
import warm
import yaml

from make_mini import make_mini
from published.section import read_section
from simulst.audio.read import load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.log import read_log

COMMANDS = "".join(block.text for block in pages.blocks("docs/new_pair.md", "sh"))
SPLITS = {"train": ("train", 24), "dev": ("dev", 1), "test": ("tst-COMMON", 4)}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout in which the page was followed; what was printed is in `output`."""
    folder = tmp_path_factory.mktemp("new_pair")
    corpus, copy = folder / "corpus", folder / "checkout"
    write_corpus(folder / "mini", corpus)
    tracked.copy(copy, leave_out="simulst")
    (copy / "simulst").symlink_to(tracked.ROOT / "simulst")  # with what Python and Numba have compiled
    (copy / ".venv").symlink_to(tracked.ROOT / ".venv")
    shrink(copy / "conf/train/mini_st.yaml")
    (copy / "tools/install.sh").write_text("#!/bin/sh\n")  # the environment is there, and not the copy's to change
    run = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", COMMANDS],
        cwd=copy,
        env={**warm.environment(copy), "CORPUS": str(corpus)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-5000:]
    (copy / "output").write_text(run.stdout)
    return copy


def shrink(file: Path) -> None:
    """Make the model of this configuration a smaller one, and leave out pictures of the training."""
    config = {**yaml.safe_load(file.read_text()), "use_matplotlib": False}
    config["encoder_conf"] |= {"output_size": 32, "linear_units": 64, "num_blocks": 1}
    config["decoder_conf"] |= {"linear_units": 64, "num_blocks": 1}
    file.write_text(yaml.safe_dump(config, sort_keys=False))


def write_corpus(work: Path, out: Path) -> None:
    """Tables with a file per utterance, cut out of the mini corpus."""
    make_mini(work, {split: size for split, size in SPLITS.values()})
    for table, (split, _) in SPLITS.items():
        folder = work / "en-de/data" / split
        (out / "clips").mkdir(parents=True, exist_ok=True)
        segments = yaml.safe_load((folder / f"txt/{split}.yaml").read_text())
        texts = [(folder / f"txt/{split}.{language}").read_text().splitlines() for language in ("en", "de")]
        rows = ["path\tclient_id\tsentence\ttranslation"]
        for number, (segment, source, target) in enumerate(zip(segments, *texts, strict=True), start=1):
            start, end = segment["offset"], segment["offset"] + segment["duration"]
            name = f"clips/{Path(segment['wav']).stem}_{number:04}.wav"
            soundfile.write(out / name, load_audio(folder / "wav" / segment["wav"], start, end), SAMPLE_RATE)
            rows.append(f"{name}\t{segment['speaker_id']}\t{source}\t{target}")
        (out / f"{table}.tsv").write_text("\n".join(rows) + "\n")


def test_stage_1_reads_the_tables(checkout: Path) -> None:
    data = checkout / "egs/my_corpus/data/en-de"
    for split, (_, size) in SPLITS.items():
        speakers = (data / split / "utt2spk").read_text().splitlines()
        assert len(speakers) == size and all(" spk." in line for line in speakers)


def test_the_curve_and_the_table_are_written(checkout: Path) -> None:
    out = checkout / "egs/my_corpus/exp/try"
    runs = sorted(out.glob("en-de/decode/en-de/test/*/instances.log"))
    labels = [run.parent.name for run in runs]
    assert labels == ["hold-4_IBWBS-beam2_1block", "hold-8_IBWBS-beam2_1block", "offline_beam2"]
    assert all(len(read_log(run)) == 3 for run in runs)
    page = (out / "RESULTS.md").read_text()
    assert all(f"| {label} " in page for label in labels)
    assert sorted(run.name for run in read_section(out / "results/en-de-test.json").runs) == labels
    assert (out / "results/en-de-test.svg").stat().st_size > 1000


def test_the_packed_model_translates_as_its_folder_does(checkout: Path) -> None:
    lines = re.findall(r"^ *\d+\.\d\d s  .+$", (checkout / "output").read_text(), flags=re.MULTILINE)
    half = len(lines) // 2
    assert half > 0 and lines[:half] == lines[half:]
