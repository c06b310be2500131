"""mini/paper_a: a tiny wav2vec 2.0 with mBART is fine-tuned on noise, decoded, and findings are tested."""

from __future__ import annotations

from pathlib import Path

import pytest
import recipe
import sounds
import stages
import tiny_huggingface
import yaml

from published.section import Section, read_section
from simulst.results.runs import find_runs

TEXTS = ["der Hund", "die Katze und der Hund", "ein Café"]
CONFIG = {"epochs": 1, "learning_rate": 1e-5, "batch_seconds": 2.0}
SWEEP = """
- {read: {type: offline}, commit: {type: all}}
- {read: {type: chunk, ms: [500, 1000]}, commit: {type: local_agreement, n: 2}}
"""


@pytest.fixture(scope="module")
def exp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of experiments: a model of en-de, then one of two pairs. Prefix pairs are training data, too."""
    folder = tmp_path_factory.mktemp("paper_a")
    audio = {f"u{number}": tiny_huggingface.noise(1.0 + number / 2, number) for number in range(len(TEXTS))}
    for pair in ("en-de", "en-ja"):
        places = [f"data/{pair}/{split}" for split in ("train", "dev", "tst-COMMON")]
        for place in (*places, f"exp/{pair}/prefix/pairs/all/train", f"exp/{pair}/prefix/pairs/all/dev"):
            sounds.write(folder / place, audio, {f"tc.{pair[3:]}": dict(zip(audio, TEXTS, strict=True))})
    tiny_huggingface.write(folder / "tiny", "mbart")
    (folder / "a.yaml").write_text(yaml.safe_dump(CONFIG))
    (folder / "sweep_a.yaml").write_text(SWEEP)
    command = f"mini/paper_a --config {folder}/a.yaml --model {folder}/tiny --prefixes all"
    command += f" --decodings {folder}/sweep_a.yaml --utterances 0"
    printed, table = stages.run(command, folder, ("train", "decode", "score", "results"))
    (folder / "exp/printed").write_text(printed)
    (folder / "exp/table").write_text(table)
    recipe.run(f"{command} --stage train --pair 'en-de en-ja'", folder)
    return folder / "exp"


def section(exp: Path, name: str) -> Section:
    return read_section(exp / f"results/{name}.json")


def test_the_page_says_what_each_stage_reads_and_writes(exp: Path) -> None:
    stages.check("mini/paper_a", (exp / "table").read_text())


def test_it_learns_from_whole_utterances_and_prefix_pairs(exp: Path) -> None:
    printed = (exp / "printed").read_text()
    for part in ("data/en-de/train", "exp/en-de/prefix/pairs/all/train"):
        assert f"{exp.parent}/{part}: 3 examples en→de" in printed
    assert (exp / "en-de/paper_a-all/model/config.json").is_file()


def test_strategies_are_decoded_and_compared(exp: Path) -> None:
    runs = [found.name for found in find_runs([exp / "en-de/paper_a-all/decode/en-de/tst-COMMON"])]
    assert runs == ["LA-2_1000ms", "LA-2_500ms", "offline"]
    found = section(exp, "paper_a-all-en-de-tst-COMMON")
    assert sorted(run.name for run in found.runs) == runs
    assert found.command.startswith("./run.sh --recipe mini/paper_a ")
    assert (exp / "results/paper_a-all-en-de-tst-COMMON.svg").stat().st_size > 1000


def test_findings_of_paper_a_are_tested(exp: Path) -> None:
    assert section(exp, "paper_a-all-en-de-tst-COMMON").findings
    page = (exp / "RESULTS.md").read_text()
    assert "A: CUNI-KIT at IWSLT 2022" in page and "runs missing" in page and "hold-6" in page


def test_one_model_of_two_pairs_is_compared_with_one_of_a_single_pair(exp: Path) -> None:
    found = section(exp, "paper_a-all-single-en-de+en-ja-en-de-tst-COMMON")
    names = [f"{pairs}/paper_a-all/decode/en-de/tst-COMMON/offline" for pairs in ("en-de", "en-de+en-ja")]
    assert {run.name for run in found.runs} == {*names} and found.comparisons
    assert section(exp, "paper_a-all-en-de+en-ja-en-ja-tst-COMMON")
    assert not list((exp / "results").glob("*single*en-ja-tst*"))  # no model of en-ja alone has been decoded
