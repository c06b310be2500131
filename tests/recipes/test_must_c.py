"""The MuST-C recipe, all stages, on a small corpus in MuST-C's layout: one model for two pairs, paper C's shrunk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import recipe
import stages
import yaml

from make_mini import make_mini
from simulst.errors import SimulstError
from simulst.files.table import read_table
from simulst.log import read_log
from simulst.models import load_model
from simulst.models.espnet.model import ESPnet
from simulst.opening import Opening

PAIRS = ("en-de", "en-ja")
STAGES = ("data", "audio", "tokens", "stats", "pretrain", "train", "choose", "decode", "score", "results")
TRAIN = 16  # lines of each pair
SHORT = f"{recipe.SHORT} 1 --accum_grad 1 --num_workers 0"


@pytest.fixture(scope="module")
def must_c(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("must_c")
    sizes = {"train": TRAIN, "dev": 1, "tst-COMMON": 2, "tst-HE": 1}
    make_mini(folder / "corpus", sizes, PAIRS)
    command = f"must_c --root {folder}/corpus --pairs '{' '.join(PAIRS)}' --pieces 400 --source-pieces 80 --ngpu 0"
    command += f" --speeds '0.9 1.0' --train-options '{SHORT}' --asr-options '{SHORT}' --counts 1 --utterances 0"
    command += f" --model-options '{recipe.TINY}'{stages.configurations(folder, asr='paper_c_asr')}"
    shutil.copy(recipe.ROOT / "conf/train/paper_c_st.yaml", folder / "conf")
    _, table = stages.run(f"{command} --config {folder}/conf/paper_c_st.yaml", folder, STAGES)
    (folder / "table").write_text(table)
    return folder


def test_the_page_says_what_each_stage_reads_and_writes(must_c: Path) -> None:
    stages.check("must_c", (must_c / "table").read_text())


def test_targets_begin_with_their_languages_token(must_c: Path) -> None:
    folder = must_c / "data/en-de+en-ja"
    texts = read_table(folder / "dump/train/text.tc.multi")
    assert len(texts) == 2 * 2 * TRAIN
    for name, text in texts.items():
        pair = name.removeprefix("sp0.9-")[:5]
        assert text.startswith(f"<2{pair[3:]}> ")
    assert {"<2de>", "<2ja>"} <= set((folder / "tokens/tokens.txt").read_text().splitlines())


def test_the_encoder_begins_where_recognition_ended(must_c: Path) -> None:
    log = (must_c / "exp/en-de+en-ja/st/simulst.log").read_text()
    assert "Loading pretrained params from" in log and "asr/valid.acc.best.pth:encoder:encoder" in log


def test_both_models_have_the_options_of_the_model(must_c: Path) -> None:
    configs = [
        yaml.safe_load((must_c / "exp/en-de+en-ja" / name / "config.yaml").read_text()) for name in ("asr", "st")
    ]
    assert configs[0]["encoder_conf"] == configs[1]["encoder_conf"]
    assert (configs[0]["encoder_conf"]["num_blocks"], configs[0]["decoder_conf"]["num_blocks"]) == (2, 1)


def test_each_pair_is_decoded_and_scored(must_c: Path) -> None:
    for pair, unit in (("en-de", "word"), ("en-ja", "char")):
        for label in recipe.LABELS:
            folder = must_c / "exp/en-de+en-ja/decode" / pair / "tst-COMMON" / label
            log = read_log(folder / "instances.log")
            assert len(log) == 2
            if unit == "char":
                assert all(len(i.delays) == len(i.prediction.replace(" ", "")) for i in log)
            assert "BLEU" in json.loads((folder / "scores.json").read_text())
    signature = (must_c / "exp/en-de+en-ja/decode/en-ja/tst-COMMON" / recipe.LABELS[0] / "scores.json").read_text()
    assert "tok:ja-mecab" in signature
    page = (must_c / "exp/RESULTS.md").read_text()
    assert all(page.count(f"| {label}") == 2 for label in recipe.LABELS)
    names = {f"en-de+en-ja-{pair}-tst-COMMON.svg" for pair in PAIRS}
    assert {path.name for path in (must_c / "exp/results").glob("*.svg")} == names


def test_the_target_language_chooses_the_token(must_c: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(must_c)
    experiment = must_c / "exp/en-de+en-ja/st"
    model = load_model(experiment)
    assert isinstance(model, ESPnet)
    prefixes = {target: model.session(Opening("en", target))._language for target in ("de", "ja")}
    assert prefixes["de"] != prefixes["ja"] and all(prefixes.values())
    with pytest.raises(SimulstError, match="does not write 'fr'; it has de, ja"):
        model.session(Opening("en", "fr"))
