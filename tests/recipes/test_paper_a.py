"""Stages 21 to 23 of mini: a tiny wav2vec 2.0 with mBART is fine-tuned on noise, decoded, and findings are tested."""

from __future__ import annotations

from pathlib import Path

import pytest
import recipe
import soundfile
import tiny_huggingface
import yaml

from simulst.report.table import find_runs

TEXTS = ["der Hund", "die Katze und der Hund", "ein Café"]
CONFIG = {"epochs": 1, "learning_rate": 1e-5, "batch_seconds": 2.0}
SWEEP = """
- {read: {type: offline}, commit: {type: all}}
- {read: {type: chunk, ms: [500, 1000]}, commit: {type: local_agreement, n: 2}}
"""


def write_data(folder: Path, language: str) -> None:
    folder.mkdir(parents=True)
    for number, _ in enumerate(TEXTS):
        soundfile.write(folder / f"u{number}.wav", tiny_huggingface.noise(1.0 + number / 2, number), 16000)
    (folder / "wav.scp").write_text("".join(f"u{number} u{number}.wav\n" for number, _ in enumerate(TEXTS)))
    (folder / "utt2spk").write_text("".join(f"u{number} s\n" for number, _ in enumerate(TEXTS)))
    (folder / f"text.tc.{language}").write_text("".join(f"u{number} {text}\n" for number, text in enumerate(TEXTS)))


@pytest.fixture(scope="module")
def exp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of experiments: a model of en-de, then one of two pairs. Prefix pairs are training data, too."""
    folder = tmp_path_factory.mktemp("paper_a")
    for pair in ("en-de", "en-ja"):
        for split in ("train", "dev", "tst-COMMON"):
            write_data(folder / "data" / pair / split, pair[3:])
        for split in ("train", "dev"):
            write_data(folder / "exp" / pair / "prefix/pairs/all" / split, pair[3:])
    tiny_huggingface.write(folder / "tiny", "mbart")
    (folder / "a.yaml").write_text(yaml.safe_dump(CONFIG))
    (folder / "sweep_a.yaml").write_text(SWEEP)
    options = ["--a-config", str(folder / "a.yaml"), "--a-model", str(folder / "tiny"), "--a-prefixes", "all"]
    options += ["--a-decodings", str(folder / "sweep_a.yaml"), "--stage", "21", "--stop-stage", "23"]
    (folder / "exp/printed").write_text(recipe.run("mini", folder, options))
    recipe.run("mini", folder, [*options, "--pair", "en-de en-ja"])
    return folder / "exp"


def section(exp: Path, name: str) -> str:
    page = (exp / "PAPER_A.md").read_text()
    return page.split(f"<!-- results: {name} -->")[1].split("<!-- end results")[0]


def test_it_learns_from_whole_utterances_and_prefix_pairs(exp: Path) -> None:
    printed = (exp / "printed").read_text()
    for part in ("data/en-de/train", "exp/en-de/prefix/pairs/all/train"):
        assert f"{exp.parent}/{part}: 3 examples en→de" in printed
    assert (exp / "en-de/paper_a-all/model/config.json").is_file()


def test_strategies_are_decoded_and_compared(exp: Path) -> None:
    runs = [found.name for found in find_runs([exp / "en-de/paper_a-all/decode/en-de/tst-COMMON"])]
    assert runs == ["LA-2_1000ms", "LA-2_500ms", "offline"]
    table = section(exp, "en-de-a-all-tst-COMMON")
    assert all(table.count(f"| {name} ") == 1 for name in runs)
    assert (exp / "en-de-a-all.svg").stat().st_size > 1000


def test_findings_of_paper_a_are_tested(exp: Path) -> None:
    text = (exp / "FINDINGS.md").read_text()
    assert "<!-- results: en-de-a-all-findings -->" in text and "**A: CUNI-KIT at IWSLT 2022**" in text
    assert "runs missing" in text and "hold-6" in text


def test_one_model_of_two_pairs_is_compared_with_one_of_a_single_pair(exp: Path) -> None:
    text = section(exp, "en-de+en-ja-en-de-a-all-single-tst-COMMON")
    runs = [f"{pairs}/paper_a-all/decode/en-de/tst-COMMON/offline" for pairs in ("en-de", "en-de+en-ja")]
    assert all(text.count(f"| {run} ") == 1 for run in runs)
    assert f"{runs[1]}` against `" in text and f"{runs[0]}`: BLEU" in text
    assert section(exp, "en-de+en-ja-en-ja-a-all-tst-COMMON")
    page = (exp / "PAPER_A.md").read_text()
    assert "en-ja-a-all-single" not in page  # no model of en-ja alone has been decoded
