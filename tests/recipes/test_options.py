"""The options of the recipes: what --help prints, and where defaults come from."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from simulst.config import load_sweep
from simulst.data.new_recipe import new_recipe
from simulst.findings import load_findings
from simulst.policy.ctc_guide import CTCGuide

ROOT = Path(__file__).parents[2]
SHARED = {"local/st_options.sh", "local/prefix_options.sh", "local/paper_a_options.sh"}
RECIPES = sorted(path.parent.name for path in ROOT.glob("egs/*/run.sh"))


def run(recipe: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run([str(recipe / "run.sh"), *options], capture_output=True, text=True, env=environment)


def scaffolded(folder: Path) -> Path:
    (folder / "local").symlink_to(ROOT / "local")
    (folder / "egs").mkdir()
    return new_recipe(folder / "egs", ROOT / "egs/TEMPLATE", "tsv", "new", "de-en")


@pytest.mark.parametrize("name", [*RECIPES, "new"])
def test_help_shows_every_option_and_its_default(tmp_path: Path, name: str) -> None:
    recipe = scaffolded(tmp_path) if name == "new" else ROOT / "egs" / name
    shown = run(recipe, "--help")
    assert shown.returncode == 0 and not shown.stderr
    assert "[$" not in shown.stdout and "[]" not in shown.stdout
    text = (recipe / "run.sh").read_text().split(". ../../local/parse_options.sh")[0]
    text += "".join((ROOT / file).read_text() for file in SHARED if file in text)
    for variable in re.findall(r"^([a-z_]+)=", text, flags=re.MULTILINE):
        assert f"--{variable.replace('_', '-')}" in shown.stdout


def test_a_size_sets_defaults_that_options_override() -> None:
    recipe = ROOT / "egs/mini"
    small, large = (run(recipe, *options, "--help").stdout for options in ((), ("--size", "large")))
    assert "[../../conf/train/mini_st.yaml]" in small and "[../../conf/train/paper_c_st.yaml]" in large
    assert "encoder [false]" in small and "encoder [true]" in large
    assert run(recipe, "--help", "--size", "large").stdout == large
    overridden = run(recipe, "--size", "large", "--asr", "false", "--train", "7", "--help").stdout
    assert "encoder [false]" in overridden and "training sentences [7]" in overridden
    assert run(recipe, "--train", "7", "--asr", "false", "--size", "large", "--help").stdout == overridden
    assert "[none 29 23]" in run(recipe, "--pair", "en-ja", "--help").stdout


def test_a_style_has_its_own_folders_and_size() -> None:
    recipe = ROOT / "egs/mini"
    talk, both = (run(recipe, "--style", "talk", *more, "--help").stdout for more in ((), ("--size", "large")))
    assert "[data/talk] [exp/talk]" in talk and "training sentences [4300]" in talk
    assert "[data/large-talk] [exp/large-talk]" in both and "training sentences [20000]" in both


NOTES = """#!/bin/sh
echo "$@"
if [ "$1" = plot ]; then
    while [ $# -gt 1 ]; do
        if [ "$1" = --out ]; then mkdir -p "$(dirname "$2")"; : > "$2"; fi
        shift
    done
fi
"""


def noted(folder: Path) -> None:
    """Copies of mini, must_c and voices whose programs only print how they were called. Pictures are empty."""
    for name in ("local", "conf"):
        (folder / name).symlink_to(ROOT / name)
    for program in ("python", "simulst"):
        path = folder / ".venv/bin" / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NOTES)
        path.chmod(0o755)
    for name in ("mini", "must_c", "voices"):
        shutil.copytree(ROOT / "egs" / name, folder / "egs" / name, ignore=shutil.ignore_patterns("data", "exp"))


def test_prefix_stages_have_their_own_tokens(tmp_path: Path) -> None:
    """The shared BPE of paper D in must_c, the tokens of stage 3 in mini."""
    noted(tmp_path)
    called = {}
    for name in ("mini", "must_c"):
        done = run(tmp_path / "egs" / name, "--ngpu", "0", "--stage", "11", "--stop-stage", "13", "--ratios", "40")
        assert done.returncode == 0, done.stderr
        called[name] = done.stdout
    assert "train_tokens" not in called["mini"] and "shared" not in called["mini"]
    assert called["mini"].count("--tokens data/en-de/tokens --source-tokens data/en-de/source_tokens") == 1
    (tokens,) = re.findall(r".*train_tokens.py (.*)", called["must_c"])
    assert tokens == (
        "data/en-de/dump/train/text.tc.de data/en-de/dump/train/text.lc.rm.en "
        "--out data/en-de/shared_tokens --size 20000 --kind bpe"
    )
    assert {*re.findall(r"tokens (data\S+)", called["must_c"])} == {"data/en-de/shared_tokens"}
    fails(
        run(tmp_path / "egs/must_c", "--stage", "11", "--stop-stage", "11", "--prefix-pieces", "x"),
        "error: --prefix-pieces 'x' is not a whole number; see",
    )


def test_models_of_several_pairs_have_sections_of_their_own(tmp_path: Path) -> None:
    noted(tmp_path)
    for pair, more in (("en-de", ""), ("en-de en-ja", "en-de+en-ja-")):
        sections = []
        for stage in ("10", "19", "23", "24"):
            done = run(tmp_path / "egs/mini", "--pair", pair, "--stage", stage, "--stop-stage", stage)
            assert done.returncode == 0, done.stderr
            sections += re.findall(r"--section (\S*en-de-(?:tst-HE|repetition|a-tst-COMMON|terms)) ", done.stdout)
        names = ["en-de-tst-HE", "en-de-repetition", "en-de-a-tst-COMMON", "en-de-terms"]
        assert sections == [more + name for name in names]


def test_systems_of_voices_have_folders_and_sections_of_their_own(tmp_path: Path) -> None:
    noted(tmp_path)
    options = ["--training", "scratch", "--stage", "13", "--stop-stage", "13", "--pairs", "en-de", "--system", "small"]
    done = run(tmp_path / "egs/voices", *options)
    assert done.returncode == 0, done.stderr
    assert "--model exp/small/en-de/st " in done.stdout and "--section scratch-small-en-de-all-lines" in done.stdout
    assert "--out exp/scratch/small/en-de/all-lines/en-de/tst/lines" in done.stdout


def test_findings_of_a_cascade_and_none(tmp_path: Path) -> None:
    noted(tmp_path)
    stage = ["--stage", "10", "--stop-stage", "10"]
    options = ["--training", "cascade", *stage, "--findings", "../../conf/findings/paper_a.yaml"]
    assert "findings --findings ../../conf/findings/paper_a.yaml" in run(tmp_path / "egs/voices", *options).stdout
    for number, option in (("16", "--prefix-findings"), ("23", "--a-findings")):
        done = run(tmp_path / "egs/mini", "--stage", number, "--stop-stage", number, option, "")
        assert done.returncode == 0 and "write_results" in done.stdout and "--runs" not in done.stdout


def test_options_that_take_several_numbers(tmp_path: Path) -> None:
    """Also if the default, or the value before, is one whole number."""
    noted(tmp_path)
    options = [
        "--stage",
        "7",
        "--stop-stage",
        "7",
        "--counts",
        "3",
        "--counts",
        "1 3",
        "--speeds",
        "1",
        "--speeds",
        "0.9 1",
    ]
    done = run(tmp_path / "egs/mini", *options)
    assert done.returncode == 0 and "--counts 1 3" in done.stdout, done.stderr


def test_full_context_models_are_conformers(tmp_path: Path) -> None:
    """The offline model and those that begin with its weights have the same encoder."""
    noted(tmp_path)
    options = ["--stage", "11", "--stop-stage", "13", "--ratios", "none", "--trained-waits", "1 5"]
    options += ["--offline-options", "--seed 2"]
    for style, more, encoder in (
        ("sentences", [], ["conformer"]),
        ("talk", [], ["conformer"]),
        ("sentences", ["--full-context-options", ""], []),
        ("talk", ["--full-context-options", "--encoder transformer"], ["transformer"]),
    ):
        called = run(tmp_path / "egs/mini", "--style", style, *options, *more).stdout
        trainings = re.findall(r"train\.py train .*? --(?: (.*))?$", called, flags=re.MULTILINE)
        assert [re.findall(r"--encoder (\w+)", given) for given in trainings] == [encoder] * 4
        assert [given.endswith("--seed 2") for given in trainings] == [True, False, False, False]


def test_options_of_the_predictor_add_to_its_size(tmp_path: Path) -> None:
    noted(tmp_path)
    options = ["--predictor-options", "--seed 2", "--stage", "14", "--stop-stage", "14"]
    called = run(tmp_path / "egs/mini", *options).stdout
    assert " --hidden 128 " in called and " --seed 2" in called


def test_kinds_of_wait_and_boundaries_may_be_left_out(tmp_path: Path) -> None:
    noted(tmp_path)
    (tmp_path / "egs/mini/exp/en-de/prefix").mkdir(parents=True)
    run(tmp_path / "egs/mini", "--stage", "15", "--stop-stage", "15", "--waits", "", "--thresholds", "")
    labels = [decoding.label for decoding in load_sweep(tmp_path / "egs/mini/exp/en-de/prefix/offline.yaml")]
    assert labels[0].startswith("offline") and not any("boundary" in label for label in labels)


@pytest.mark.parametrize(
    ("name", "pair"), [("mini", "en-de"), ("mini", "en-ja"), ("must_c", "en-de"), ("must_c", "en-ja")]
)
def test_stage_15_decodes_what_paper_ds_findings_compare(tmp_path: Path, name: str, pair: str) -> None:
    noted(tmp_path)
    recipe = tmp_path / "egs" / name
    (recipe / "exp" / pair / "prefix").mkdir(parents=True)
    option = "--pair" if name == "mini" else "--pairs"
    assert run(recipe, option, pair, "--stage", "15", "--stop-stage", "15").returncode == 0
    labels = {one.label for file in (recipe / "exp" / pair / "prefix").glob("*.yaml") for one in load_sweep(file)}
    [findings] = load_findings([ROOT / "conf/findings/paper_d.yaml"]).values()
    for finding in findings:
        for pattern in (*finding.a, *finding.b) if finding.is_for(pair[-2:]) else ():
            assert any(fnmatchcase(label, pattern) for label in labels), f"{finding.id}: {pattern}"


def test_findings_of_paper_c_are_not_those_of_other_systems(tmp_path: Path) -> None:
    """Stage 10 tests them on the recipe's own model, and on that of `--system` only if it is told to."""
    noted(tmp_path)
    for folder, options, tested in (
        ("en-de", [], True),
        ("b/en-de", ["--system", "b"], False),
        ("b/en-de", ["--system", "b", "--findings", "f.yaml"], True),
    ):
        place = tmp_path / "egs/mini/exp" / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / "en-de.svg").touch()  # the curve
        done = run(tmp_path / "egs/mini", "--stage", "10", *options)
        assert done.returncode == 0, done.stderr
        assert ("findings --section" in done.stdout) == tested


def test_paper_bs_models_begin_with_one_recognition_model(tmp_path: Path) -> None:
    """Stage 25 trains three models, with their own tokens and configuration, and tests the findings over all seeds."""
    noted(tmp_path)
    for name in ("b-char", "b-bpe400", "b-bpe2000"):
        place = tmp_path / "egs/mini/other" / name / "en-ja"
        place.mkdir(parents=True)
        (place / "en-ja.svg").touch()
    given = ["--pair", "en-ja", "--exp", "other", "--train-options", "--seed 2", "--seeds", "more", "--counts", "1 2"]
    done = run(tmp_path / "egs/mini", *given, "--stage", "25", "--stop-stage", "25")
    assert done.returncode == 0, done.stderr
    called = done.stdout.splitlines()
    tokens = [line for line in called if "train_tokens.py" in line and "text.tc.ja" in line]
    kinds = [re.sub(".* --size (.*)", r"\1", line) for line in tokens]
    assert kinds == ["700 --kind char", "400 --kind bpe", "2000 --kind bpe"]
    trainings = [line for line in called if "train.py train" in line]
    asr, *translations = (line.partition(" --out ")[2] for line in trainings)
    assert asr.startswith("other/b-char/en-ja/asr ") and "--task asr" in trainings[0]
    for name, line in zip(("b-char", "b-bpe400", "b-bpe2000"), translations, strict=True):
        assert line.startswith(f"other/{name}/en-ja/st ") and line.endswith(" -- --seed 2")
        assert " --encoder other/b-char/en-ja/asr/valid.acc.best.pth " in line
    assert sum("paper_b_grid.yaml" in line for line in called if line.startswith("sweep")) == 6
    findings = [line for line in called if line.startswith("findings")]
    assert findings == [
        f"findings --section {section}-en-ja-findings --command ./run.sh --recipe mini --pair en-ja "
        '--train-options "--seed 2" --counts "1 2" --stage 25 --stop-stage 25 --seeds "more" --out other/FINDINGS.md '
        f"--runs other/b-*/en-ja --runs more/b-*/en-ja --findings ../../conf/findings/{file}.yaml"
        for section, file in (("b", "paper_b"), ("b-pieces", "paper_b_pieces"))
    ]


def test_a_guide_of_another_system(tmp_path: Path) -> None:
    noted(tmp_path)
    place = tmp_path / "egs/mini/exp/en-de"
    place.mkdir(parents=True)
    for guide in ("exp/en-de/st", "exp/guide/en-de/st", "exp/R&D#1/en-de/st"):
        options = ["--guide", guide] if guide != "exp/en-de/st" else []
        done = run(tmp_path / "egs/mini", "--stage", "8", "--stop-stage", "8", "--guided", *options)
        assert done.returncode == 0, done.stderr
        stops = [decoding.stop for decoding in load_sweep(place / "guided.yaml")]
        assert {stop.model for stop in stops if isinstance(stop, CTCGuide)} == {guide}


@pytest.mark.parametrize("name", ["mini", "prompts"])
def test_all_cores_decode_whatever_the_number_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0))
    monkeypatch.setenv("OMP_NUM_THREADS", str(cores + 1))
    assert re.search(rf"--jobs N .*\[{cores}\]", run(ROOT / "egs" / name, "--help").stdout)


def test_some_of_paper_bs_models(tmp_path: Path) -> None:
    """Without characters, their recognition model is still the one that the others begin with."""
    noted(tmp_path)
    place = tmp_path / "egs/mini/exp/b-bpe400/en-de"
    place.mkdir(parents=True)
    (place / "en-de.svg").touch()
    done = run(tmp_path / "egs/mini", "--b-models", "bpe400", "--stage", "25", "--stop-stage", "25")
    assert done.returncode == 0, done.stderr
    trained = [line.partition(" --out ")[2].split()[0] for line in done.stdout.splitlines() if "train.py train" in line]
    assert trained == ["exp/b-char/en-de/asr", "exp/b-bpe400/en-de/st"]
    assert "findings --section" not in done.stdout and "--b-models" not in done.stdout


def test_paper_bs_models_without_recognition(tmp_path: Path) -> None:
    noted(tmp_path)
    for name in ("b-char", "b-bpe400", "b-bpe2000"):
        place = tmp_path / f"egs/mini/exp/{name}/en-de"
        place.mkdir(parents=True)
        (place / "en-de.svg").touch()
    done = run(tmp_path / "egs/mini", "--asr", "false", "--stage", "25", "--stop-stage", "25")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("train.py train") == 3
    assert "--task asr" not in done.stdout and "--encoder" not in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sise", "large"], "error: unknown option --sise; see"),
        (["--size", "huge"], "error: no size 'huge'; there are small and large"),
        (["--style", "song"], "error: no style 'song'; there are sentences and talk"),
        (["--stage", "25", "--stop-stage", "25", "--b-models", "bpe"], "error: --b-models 'bpe': give char, or"),
        (["--stage", "25", "--stop-stage", "25", "--token-kind", "char"], "error: --token-kind: stage 25 sets it for"),
        (["--stage", "8", "--guide", "exp/st"], "error: --guide 'exp/st': stage 8 takes a guide with --guided only;"),
        (["--tests"], "error: --tests needs a value"),
        (["en-de"], "error: unexpected argument 'en-de'"),
        (["--stage", "foo"], "error: --stage 'foo' is no stage's number; see"),
        (["--stop-stage", ""], "error: --stop-stage '' is no stage's number; see"),
        (["--stage", "-1"], "error: --stage '-1' is no stage's number; see"),
        (["--stage", "12"], "error: there is no stage from 12 to 10 in this recipe; see"),
        (["--stage", "5", "--stop-stage", "5"], "error: there is no stage from 5 to 5 in this recipe; see"),  # no ASR
        (["--data", "my data"], "error: --data 'my data': give a path without blanks"),
        (["--offline-config", "a b.yaml"], "error: --offline-config 'a b.yaml': give a path without blanks"),
    ],
)
def test_bad_options_end_in_a_sentence(options: list[str], message: str) -> None:
    fails(run(ROOT / "egs/mini", *options), message)


def fails(result: subprocess.CompletedProcess[str], message: str) -> None:
    assert result.returncode == 1 and result.stderr.startswith(message) and result.stderr.count("\n") == 1


def test_options_of_another_training(tmp_path: Path) -> None:
    message = "error: --train-options is only for --training scratch, and this is --training finetune"
    fails(run(ROOT / "egs/voices", "--training", "finetune", "--train-options", "--max_epoch 1"), message)


def test_stage_1_prepares_all_splits_that_are_named(tmp_path: Path) -> None:
    noted(tmp_path)
    for options, splits in (
        ([], "train dev tst-COMMON"),
        (["--prefix-tests", "tst-COMMON tst-HE", "--a-tests", "own"], "train dev tst-COMMON tst-HE own"),
    ):
        done = run(tmp_path / "egs/must_c", "--root", "corpus", "--stage", "1", "--stop-stage", "1", *options)
        assert f"--splits {splits} --out" in done.stdout


def test_a_stage_that_a_recipe_has_not(tmp_path: Path) -> None:
    message = "error: there is no stage from {} in this recipe; see"
    fails(run(scaffolded(tmp_path), "--stage", "12", "--stop-stage", "16"), message.format("12 to 16"))
    fails(run(ROOT / "egs/prompts", "--stage", "3", "--stop-stage", "7"), message.format("3 to 7"))


def test_training_without_a_gpu(tmp_path: Path) -> None:
    places = ["--data", str(tmp_path / "data"), "--exp", str(tmp_path)]
    message = "error: --ngpu 1: no GPU here; give --ngpu 0"
    fails(run(ROOT / "egs/must_c", "--stage", "5", "--stop-stage", "5", *places), message)
    options = ["--stage", "6", "--stop-stage", "6", *places]
    # A complete training needs none; this one was another, as the trainer says.
    folder = tmp_path / "en-de/st"
    folder.mkdir(parents=True)
    (tmp_path / "en-de/asr").mkdir(exist_ok=True)
    (tmp_path / "en-de/asr/valid.acc.best.pth").touch()
    (folder / "simulst.json").write_text(json.dumps({"complete": True}, indent=1))
    assert "was begun with other options" in run(ROOT / "egs/must_c", *options).stderr
    fails(run(ROOT / "egs/must_c", *options, "--force"), message)


def test_results_name_the_options_that_made_them(tmp_path: Path) -> None:
    """All that change results, as they were given; not those that say where and how to run."""
    noted(tmp_path)
    options = ["--pair", "en-de en-ja", "--counts", "1 2", "--asr", "--a-prefixes", "", "--train-options", "--seed=2"]
    place = tmp_path / "egs/mini/exp/en-de+en-ja"
    place.mkdir(parents=True)
    for pair in ("en-de", "en-ja"):
        (place / f"{pair}.svg").touch()
    done = run(tmp_path / "egs/mini", *options, "--stage", "10", "--stop-stage", "10", "--jobs", "1", "--exp", "exp")
    assert done.returncode == 0, done.stderr
    shown = '--pair "en-de en-ja" --counts "1 2" --asr --a-prefixes "" --train-options --seed=2'
    assert {*re.findall(r"--command (\./run.sh .*?) --(?:picture|out)", done.stdout)} == {
        f"./run.sh --recipe mini {shown}"
    }


def test_variables_of_the_shell_are_no_options() -> None:
    for name in ("given", "name", "file"):
        fails(run(ROOT / "egs/mini", f"--{name}", "x"), f"error: unknown option --{name}; see")
