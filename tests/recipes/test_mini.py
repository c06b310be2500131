"""The mini recipe, all stages, on a handful of sentences and a very small model: real trainer, real decoding."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
import recipe
import stages
import tracked
import waiting

from simulst.config import load_sweep
from simulst.data.datadir import read_data_dir
from simulst.log import read_log
from simulst.prefix.pairs import read_prefixes

SIZES = {"train": 16, "dev": 1, "test": 2, "he": 1}
CORPUS = " ".join(f"--{name} {size}" for name, size in SIZES.items())
TOKENS = f"{CORPUS} --pieces 100 --source-pieces 80 --counts '1 2'"
OPTIONS = f"{TOKENS} --train-options '{recipe.SHORT} 3 {recipe.TINY}'"


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All stages; the training is interrupted after its first epoch and goes on."""
    folder = tmp_path_factory.mktemp("mini")
    before = tracked_results()
    recipe.run(f"mini {OPTIONS} --stop-stage stats", folder)
    process = recipe.start(f"mini {OPTIONS} --only train", folder)
    waiting.until((folder / "exp/en-de/st/checkpoint.pth").is_file, folder, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (folder / "output").write_text(recipe.run(f"mini {OPTIONS}", folder))
    assert tracked_results() == before
    return folder


def tracked_results() -> dict[str, bytes]:
    """The recipe's page and results, which git tracks."""
    files = tracked.files("egs/mini/*.md", "results/mini/*")
    return {path.name: path.read_bytes() for path in files}


def test_an_interrupted_training_resumes_at_its_last_epoch(mini: Path) -> None:
    log = (mini / "exp/en-de/st/simulst.log").read_text()
    assert log.count("1epoch results") == log.count("3epoch results") == 1
    assert log.count("2epoch results") in (1, 2)  # it may have been killed between this line and its checkpoint
    assert json.loads((mini / "exp/en-de/st/simulst.json").read_text())["complete"] is True
    assert list((mini / "exp/en-de/st").rglob("events.out.tfevents*"))


def test_complete_stages_are_skipped(mini: Path) -> None:
    output = (mini / "output").read_text()
    assert output.count("complete; --force does it again") == 5  # segment audio, tokens, both twice; statistics


def test_every_configuration_is_decoded_and_scored(mini: Path) -> None:
    for split, count in {"tst-COMMON": SIZES["test"], "tst-HE": SIZES["he"]}.items():
        runs = sorted(path.parent for path in (mini / "exp/en-de/decode/en-de" / split).rglob("scores.json"))
        assert [run.name for run in runs] == recipe.LABELS
        for folder in runs:
            log = read_log(folder / "instances.log")
            assert len(log) == count
            scores = json.loads((folder / "scores.json").read_text())
            assert 0 <= scores["BLEU"] <= 100 and scores["RTF"] > 0


def shrunk(folder: Path, name: str, *values: tuple[str, str]) -> str:
    """A copy of a file in conf/decode with fewer values; values: pattern, and what stands there."""
    text = (recipe.ROOT / f"conf/decode/{name}.yaml").read_text()
    for pattern, value in values:
        text, count = re.subn(pattern, value, text)
        assert count
    (folder / f"{name}.yaml").write_text(text)
    return str(folder / f"{name}.yaml")


def test_an_offline_model_is_guided_by_ctc(mini: Path, tmp_path: Path) -> None:
    """The recipe's own guide; in the place of the offline model."""
    offline = mini / "exp/en-de/offline"
    offline.symlink_to("st")
    fewer = [(r"ms: \[.*?\]", "ms: 1280"), (r"beam: \[1, 8\]", "beam: 1"), (r"threshold: \[.*?\]", "threshold: 0.0")]
    sweep = shrunk(tmp_path, "paper_c_guided", *fewer)
    recipe.run(f"mini/extras/guided {CORPUS} --only decode --tests tst-HE --decodings {sweep}", mini)
    offline.unlink()
    runs = mini / "exp/en-de/decode/en-de/tst-HE"
    for label in ("allw_guide*", "LA-2_beam1-ctc0_1280ms", "LA-2_BWBS-beam8-ctc0*", "LA-2_IBWBS-beam8-ctc0*"):
        [run] = runs.glob(label)
        assert len(read_log(run / "instances.log")) == SIZES["he"]


def test_decoding_is_done_again_by_force(mini: Path) -> None:
    """Without `--force`, decoding keeps the logs that are there."""
    log = mini / "exp/en-de/decode/en-de/tst-HE" / recipe.LABELS[0] / "instances.log"
    before = log.read_bytes()
    log.write_bytes(before.replace(b'"prediction": "', b'"prediction": "stale '))
    recipe.run(f"mini {OPTIONS} --only decode --tests tst-HE --force", mini)
    assert [i.prediction for i in read_log(log)] == [json.loads(line)["prediction"] for line in before.splitlines()]


def test_results_are_written(mini: Path) -> None:
    page = (mini / "exp/RESULTS.md").read_text()
    assert all(page.count(f"| {label}") == 2 for label in recipe.LABELS)
    written = {path.name for path in (mini / "exp/results").iterdir()}
    assert {"en-de-tst-COMMON.json", "en-de-tst-HE.json", "en-de-tst-COMMON.svg"} <= written
    report = (mini / "exp/results/en-de-tst-COMMON.html").read_text()
    assert all(label in report for label in recipe.LABELS) and '"utterances":{' in report
    assert "en-de-tst-HE.svg" not in written


def test_the_recall_of_rare_words_is_measured(mini: Path) -> None:
    recipe.run(f"mini/extras/terms {CORPUS} --decodings {recipe.ROOT}/conf/decode/terms.yaml", mini)
    assert (mini / "data/en-de/context.tsv").read_text().startswith("recording\t")
    runs = [json.loads(path.read_text()) for path in (mini / "exp/en-de/terms/en-de").rglob("scores.json")]
    assert len(runs) == 4 and all(0 <= run["term_recall"] <= 1 for run in runs)
    assert "| Terms |" in (mini / "exp/RESULTS.md").read_text()


def test_the_recipes_own_results_are_written_when_asked_for(mini: Path, tmp_path: Path) -> None:
    """In a copy without pages that name runs, which these are not."""
    copy = tmp_path / "egs/mini"
    for name in ("conf", "local", ".venv"):
        (tmp_path / name).symlink_to(tracked.ROOT / name)
    tracked.copy(tmp_path, "egs/mini", "results/mini")
    (tmp_path / "results/mini/page.yaml").unlink()
    shutil.copytree(mini / "exp", copy / "exp")
    done = recipe.call(tmp_path, "mini --only results --exp exp --publish --tests tst-COMMON --utterances 0")
    assert done.returncode == 0, done.stderr
    assert (copy / "README.md").read_bytes() == (recipe.EGS / "mini/README.md").read_bytes()
    section = "results/en-de-tst-COMMON.json"
    assert (tmp_path / "results/mini/en-de-tst-COMMON.json").read_bytes() == (copy / "exp" / section).read_bytes()
    assert all(f"| {label}" in (copy / "RESULTS.md").read_text() for label in recipe.LABELS)


PREFIX = f"{TOKENS} --tau 48 --prefix-beam 2 --utterances 0 --ratios 5000 --trained-waits 2"
PREFIX += f" --wait-encoders bidirectional --model-options '{recipe.TINY}' --offline-options '{recipe.SHORT} 2'"
PREFIX += f" --prefix-options '{recipe.SHORT} 1' --wait-options '{recipe.SHORT} 1'"
PREFIX += " --predictor-options '--mels 40 --channels 4 --embedding 16 --hidden 16 --max-epochs 1'"


def test_prefix_alignment(mini: Path) -> None:
    """Paper D: pairs are extracted and trained on, the predictor too, and all systems are compared."""
    command = f"mini/paper_d {PREFIX}"
    command += stages.configurations(mini, offline="mini_offline", prefix="mini_prefix", wait="mini_wait")
    thresholds = (r"threshold: \[.*?\], frames: \[.*?\]", "threshold: [0.0, 0.5], frames: 48")
    waits = (r"k: \[1, 3, .*?\]", "k: [1, 9]")
    command += f" --decodings {shrunk(mini / 'conf', 'paper_d', thresholds, waits)}"
    command += f" --prefix-decodings {shrunk(mini / 'conf', 'paper_d_prefix', thresholds)}"
    _, table = stages.run(command, mini, ("pretrain", "train", "decode", "score", "results"))
    found = read_prefixes(mini / "exp/en-de/prefix/train/prefixes.jsonl")
    assert len(found) == SIZES["train"] and all(one["tau"] == 48 for one in found)
    kept = sum(len(one["pairs"]) for one in found)
    counts = json.loads((mini / "exp/en-de/prefix/pairs/maxratio5000/train/pairs.json").read_text())
    assert counts == {"pairs": kept, "kept": kept, "whole": SIZES["train"]}
    assert len(read_data_dir(mini / "exp/en-de/prefix/pairs/maxratio5000/train", "tc.de")) == kept + SIZES["train"]
    assert (mini / "exp/en-de/prefix/maxratio5000/valid.acc.best.pth").is_file()
    runs = sorted(path.parent.name for path in (mini / "exp/en-de/prefix/decode/tst-COMMON").rglob("scores.json"))
    models = ("maxratio5000", "offline")
    boundaries = [f"boundary-T48-{name}-{t}_beam2-ctc0" for name in models for t in ("0", "0.5")]
    others = ["offline", "offline-maxratio5000", "test-time-wait-1", "test-time-wait-9"]
    others += ["test-time-wait-2-N1_all", "wait-2-bidirectional"]
    assert runs == sorted([*boundaries, *(f"{name}_beam2-ctc0" for name in others)])
    page = (mini / "exp/RESULTS.md").read_text()
    assert page.count("| test-time-wait-9") == 1 and "| outputs, λ 0.5" in page
    assert (mini / "exp/results/paper_d-en-de-tst-COMMON.svg").stat().st_size > 1000
    stages.check("mini/paper_d", table)
    assert "complete; --force does it again" in recipe.run(f"{command} --stop-stage stats", mini)


WAIT_TOKEN = f"{OPTIONS} --lags '0 1' --utterances 0 --reinforce --divergence"
WAIT_TOKEN += f" --wait-options '{recipe.SHORT} 1 {recipe.TINY}'"


def test_wait_tokens(mini: Path, tmp_path: Path) -> None:
    """Chunk-aligned data from the model's own CTC layer; fine-tuning, training on lag and quality, and decoding."""
    command = f"mini/wait_token {WAIT_TOKEN}"
    command += stages.configurations(mini, wait="mini_wait_token", reinforce="mini_reinforce")
    (mini / "conf/mini_reinforce.yaml").write_text("{updates: 2, batch: 2, group: 2, floor: 0}")
    fewer = shrunk(tmp_path, "divergence", (r"\[(\d[\d.]*), .*?\]", r"\1"))
    command += f" --divergence-decodings {fewer}"
    _, table = stages.run(command, mini, ("pretrain", "train", "decode", "score", "results"))
    made = mini / "exp/en-de/wait_token"
    texts = [one.reference for one in read_data_dir(made / "train", "tc.de")]
    assert len(texts) == SIZES["train"] and {text[:6] for text in texts} == {"<lag0>", "<lag1>"}
    assert all("<wait>" in text for text in texts)
    assert [json.loads(line)["update"] for line in (made / "reinforced/log.jsonl").read_text().splitlines()] == [1, 2]
    runs = sorted(path.parent.name for path in (made / "decode/en-de/tst-COMMON").rglob("scores.json"))
    searches = ["0{}_beam1-ctc0.15", "0{}_beam4-ctc0.15", "1{}_beam1-ctc0.15", "1{}_beam4-ctc0.15"]
    searches += ["0-complete{}_beam4-ctc0.3"]
    kinds = [kind.format(name) for name in ("", "-reinforced") for kind in searches]
    token = [f"all-last-punct_token{kind}_640ms-wait1680" for kind in kinds]
    unsure = [one.label for one in load_sweep(fewer)]
    assert runs == sorted([*token, *recipe.LABELS, *unsure])
    reads = {tuple(i.reads[:2]) for i in read_log(made / "decode/en-de/tst-COMMON" / token[0] / "instances.log")}
    assert reads == {(1680.0, 2320.0)}
    stages.check("mini/wait_token", table)
