"""The options and stages of the recipes' scripts: what --help prints, where defaults come from, what is refused."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import tracked
from click.testing import CliRunner
from recipe import ROOT, SCRIPTS, call, script, shown

import rehearse
from findings import load_findings
from new_recipe import new_recipe
from simulst.config import load_sweep, parse_values
from simulst.machine.threads import available_cores
from simulst.policy.ctc_guide import CTCGuide

SHELL = [path for path in tracked.files("**/*.sh") if "TEMPLATE" not in path.parts]
STAGES = ("data", "audio", "tokens", "stats", "pretrain", "train", "choose", "decode", "score", "results")
LINES, COLUMNS = 45, 120


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def default_of(option: str, text: str) -> str:
    """The default of an option, as --help shows it."""
    found = re.search(rf"^  --{option} .*?(?=^  --|^\S|\Z)", text, flags=re.DOTALL | re.MULTILINE)
    assert found, f"no --{option}"
    values = re.search(r"\[([^\[\]]*)\]\s*\Z", found[0])
    return " ".join(values[1].split()) if values else ""


def sources(name: str) -> str:
    """A script with all that it sources."""
    texts, files = "", [script(name)]
    while files:
        file = files.pop()
        text = file.read_text()
        texts += text
        folder = ROOT / "egs" / name.split("/")[0]
        files += [folder / sourced for sourced in re.findall(r"^\. (\S+\.sh)$", text, flags=re.MULTILINE)]
    return texts


@pytest.fixture(scope="module")
def scaffolded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a recipe made of the template."""
    root = tmp_path_factory.mktemp("new")
    (root / "local").symlink_to(ROOT / "local")
    (root / "egs").mkdir()
    new_recipe(root / "egs", ROOT / "egs/TEMPLATE", "tsv", "new", "de-en")
    return root


def test_there_are_scripts() -> None:
    systems = {"mini", "mini/paper_a", "mini/paper_b", "mini/paper_d", "must_c", "must_c/paper_a", "must_c/paper_b"}
    assert systems | {"must_c/paper_d", "mini/extras/terms", "prompts", "prompts/try", "voices/finetune"} <= {*SCRIPTS}


def test_help_needs_no_environment_and_makes_none(tmp_path: Path) -> None:
    tracked.copy(tmp_path, "local", "egs/mini")
    shutil.copy(ROOT / "run.sh", tmp_path)
    done = subprocess.run([tmp_path / "run.sh", "--recipe=mini", "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "Stages of ./run.sh --recipe mini:" in done.stdout


@pytest.mark.parametrize("name", [*SCRIPTS, "new"])
def test_help_fits_on_a_screen_and_a_number_means_the_same_stage_everywhere(name: str, scaffolded: Path) -> None:
    done = call(scaffolded if name == "new" else ROOT, f"{name} --help")
    assert done.returncode == 0 and not done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= LINES and max(map(len, lines)) <= COLUMNS + 12
    assert f"Stages of ./run.sh --recipe {name}:" in lines
    stages = re.findall(r"^ {2,3}(\d+) (\w+) +\S", done.stdout, flags=re.MULTILINE)
    assert stages and [*stages] == [(str(STAGES.index(stage) + 1), stage) for _, stage in stages]


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_option_is_used_and_every_stage_is_there(name: str) -> None:
    """Options are declared by `option`, and read as variables; a default belongs to an option of some script."""
    text = sources(name)
    for option in re.findall(r"^  --([a-z-]+)", shown(name), flags=re.MULTILINE):
        variable = option.replace("-", "_")
        assert re.search(rf"\$\{{?{variable}\b|if !? ?\${variable}\b|\$\(\${variable} ", text), (
            f"--{option} is not used"
        )
    for stage in re.findall(r"^stage (\w+) ", text, flags=re.MULTILINE):
        assert f"stage_{stage}()" in text, stage


def test_every_default_is_of_an_option() -> None:
    texts = [path.read_text() for path in SHELL]
    options = {name for text in texts for name in re.findall(r"^ *option (\w+) ", text, flags=re.MULTILINE)}
    for text in texts:
        assert {*re.findall(r"^ *(?:if .* then )?default (\w+) ", text, flags=re.MULTILINE)} <= options


def test_a_size_sets_defaults_that_options_override() -> None:
    small, large = shown("mini"), shown("mini --size large")
    for option, values in {
        "config": ("../../conf/train/mini_st.yaml", "../../conf/train/paper_c_st.yaml"),
        "asr": ("false", "true"),
        "train": ("5000", "20000"),
        "exp": ("exp", "exp/large"),
    }.items():
        assert (default_of(option, small), default_of(option, large)) == values
    overridden = shown("mini --size large --asr false --train 7")
    assert (default_of("asr", overridden), default_of("train", overridden)) == ("false", "7")
    assert shown("mini --train 7 --asr false --size large") == overridden
    assert default_of("ratios", shown("mini/paper_d --pair en-ja")) == "none 29 23"
    assert default_of("stats-config", shown("mini/paper_d --size large")) == "../../conf/train/paper_c_st.yaml"


def test_a_style_has_its_own_folders_and_size() -> None:
    talk, both = shown("mini --style talk"), shown("mini --style talk --size large")
    assert [default_of(name, talk) for name in ("data", "exp", "train")] == ["data/talk", "exp/talk", "4300"]
    assert default_of("data", both) == "data/large-talk" and default_of("train", both) == "20000"


@pytest.mark.parametrize("name", ["mini", "prompts"])
def test_all_cores_decode_whatever_the_number_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = available_cores()
    monkeypatch.setenv("OMP_NUM_THREADS", str(cores + 1))
    assert default_of("jobs", call(ROOT, f"{name} --help all").stdout) == str(cores)
    # A container's quota, too, which `nproc` does not look at.
    assert [file for file in SHELL if "nproc" in file.read_text()] == []


NOTES = """#!/bin/sh
case "$1" in
    */rehearse.py) cat > ../../rehearsed ;;
    -c) echo 2 ;; # processors
    *) echo "$(basename "$0") $@" ;;
esac
"""


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    """Copies of the recipes whose programs only print how they were called."""
    for name in ("local", "conf"):
        (tmp_path / name).symlink_to(ROOT / name)
    for program in ("python", "simulst"):
        path = tmp_path / ".venv/bin" / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NOTES)
        path.chmod(0o755)
    tracked.copy(tmp_path, *(f"egs/{name}" for name in ("iwslt", "mini", "must_c", "voices", "prompts")))
    return tmp_path


def called(root: Path, command: str) -> list[str]:
    """The programs that a script calls."""
    done = call(root, command)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("== stage")]


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_stages_have_names_and_numbers(noted: Path) -> None:
    for options in ("--only tokens", "--only 3", "--stage tokens --stop-stage 3"):
        lines = called(noted, f"mini {options}")
        assert len(lines) == 2 and all(line.startswith("simulst train tokens ") for line in lines)
    done = call(noted, "mini --stage stats --stop-stage train")
    assert re.findall(r"^== stage (.*?):", done.stdout, flags=re.MULTILINE) == ["4, stats", "6, train"]


def test_a_script_does_everything(noted: Path) -> None:
    """On a fresh checkout: the corpus, tokens and statistics are those of the recipe's own model."""
    places = noted / "egs/mini/exp/en-de"
    touch(places / "prefix/predictor/predictor.pth")
    own = called(noted, "mini --stop-stage stats")
    for name in ("mini/paper_d", "mini/extras/full_context"):
        assert called(noted, f"{name} --stop-stage stats") == own
    assert called(noted, "mini/paper_a --stop-stage data") == own[:2]
    assert [" ".join(line.split()[1:3]) for line in called(noted, "mini/paper_a")[2:]] == [
        *("train finetune", "sweep --data", "runs score", "../../local/results.py write"),
        "report exp/en-de/paper_a/decode/en-de/tst-COMMON",
    ]


def test_iwslt_makes_its_own_small_folder_or_takes_the_organisers(noted: Path) -> None:
    made = called(noted, "iwslt")
    assert [" ".join(line.split()[1:3]) for line in made if "choose" not in line] == [
        "../prompts/local/prepare_prompts.py --downloads",
        "local/make_small.py --data",
        "local/prepare_iwslt.py data/organisers",
        "../../local/fetch_whisper.py --downloads",
        *("sweep --data", "runs score", "../../local/results.py write", "report exp/es-en-small"),
    ]
    assert "--data data/small " in made[4] and "--model models/whisper-base " in made[4]
    assert "--published" not in made[-2]
    options = "--folder /data/mcif --pairs 'en-de cs-en en-ja' --model org/m:x --model-options 'a=1 b=2'"
    given = called(noted, f"iwslt {options}")
    assert given[0].startswith("python local/prepare_iwslt.py /data/mcif data/mcif")
    assert "fetch_whisper" not in "".join(given)
    assert "--model org/m:x " in given[1] and given[1].endswith("--model-option a=1 --model-option b=2")
    written = [line for line in given if line.startswith("python ../../local/results.py")]
    assert [line.count("--published") for line in written] == [1, 1, 0]
    assert "--section m-x-en-de-mcif " in written[0] and "iwslt2026_cs-en.yaml" in written[1]
    assert "../../conf/published/iwslt2026_en-ja.yaml: no such file, so no published figures are drawn" in given


def test_iwslt_packs_what_was_chosen_and_verifies_it(noted: Path) -> None:
    recipe = noted / "egs/iwslt"
    touch(*(recipe / f"exp/{run}/chosen/0-2000.yaml" for run in ("es-en-small", "m/en-de-mcif")))
    chosen = "exp/es-en-small/chosen/0-2000.yaml exp/m/en-de-mcif/chosen/0-2000.yaml"
    assert called(noted, "iwslt/extras/pack --contact 'A B'") == [
        f"simulst pack {chosen} --out exp/handin --contact A B",
        "simulst verify exp/handin data/organisers",
    ]
    options = "--choices exp/m --contact A --pack-options '--device cuda' --recordings /r --force"
    assert called(noted, f"iwslt/extras/pack {options}") == [
        "simulst pack exp/m/en-de-mcif/chosen/0-2000.yaml --out exp/handin --contact A --device cuda --force",
        "simulst verify exp/handin /r",
    ]
    touch(recipe / "exp/handin/SHA256SUMS")  # as an earlier call left it
    assert called(noted, "iwslt/extras/pack") == ["simulst verify exp/handin data/organisers"]
    fails(call(noted, "iwslt/extras/pack --out x"), "--contact: say who answers questions, by name and address")
    fails(call(noted, "iwslt/extras/pack --choices none --out x"), "none: has no chosen/*.yaml; ./run.sh")


def test_offline_models_have_their_own_tokens(noted: Path) -> None:
    """The shared BPE of paper D in must_c, the tokens of stage 3 in mini."""
    options = "--ngpu 0 --stage tokens --stop-stage train --ratios 40"
    lines = {name: called(noted, f"{name}/paper_d {options}") for name in ("mini", "must_c")}
    assert not any("shared" in line for line in lines["mini"])
    shared = "--tokens data/en-de/tokens --source-text lc.rm.en --source-tokens data/en-de/source_tokens"
    assert sum(f"{shared} --" in line for line in lines["mini"]) == 4  # statistics, the offline model, two for wait-k
    (tokens,) = [line for line in lines["must_c"] if "shared_tokens --size" in line]
    assert tokens == (
        "simulst train tokens data/en-de/speeds-1.0/dump/train/text.tc.de "
        "data/en-de/speeds-1.0/dump/train/text.lc.rm.en "
        "--out data/en-de/speeds-1.0/shared_tokens --size 20000 --kind bpe"
    )
    trainings = [line for line in lines["must_c"] if line.startswith(("simulst train espnet", "simulst prefix pairs"))]
    assert {*re.findall(r"tokens (data\S+)", "".join(trainings))} == {"data/en-de/speeds-1.0/shared_tokens"}


def test_models_of_several_pairs_have_sections_of_their_own(noted: Path) -> None:
    for pair, more in (("en-de", ""), ("en-de en-ja", "en-de+en-ja-")):
        sections = []
        for name in ("mini", "mini/extras/repetition", "mini/paper_a", "mini/extras/terms"):
            lines = called(noted, f"{name} --pair '{pair}' --only results")
            sections += re.findall(r"--section (\S*en-de-(?:tst-HE|dev|tst-COMMON)) ", "\n".join(lines))
        expected = [f"{part}{more}en-de-tst-COMMON" for part in ("", "paper_a-", "terms-")]
        assert {*sections} == {*expected, f"{more}en-de-tst-HE", f"repetition-{more}en-de-dev"}


def test_variants_and_systems_have_sections_of_their_own(noted: Path) -> None:
    for options, section, out in (
        ("", "en-de-tst-COMMON", "exp"),
        ("--style talk", "talk-en-de-tst-COMMON", "exp/talk"),
        ("--size large --style talk", "large-talk-en-de-tst-COMMON", "exp/large-talk"),
        ("--system small", "small-en-de-tst-COMMON", "exp"),
    ):
        line = called(noted, f"mini {options} --only results")[0]
        assert f"--section {section} " in line and "--curve" in line
        assert f"--out {out} " in line and "--publish" not in line
    publishing = called(noted, "mini --publish --only results")
    assert [line.endswith(" --publish ../..") for line in publishing] == [True, False] * 2  # and a report of each


def test_the_last_stage_makes_a_report_of_each_split(noted: Path) -> None:
    """Of its runs, named as their section of results."""
    for name in ("mini", "mini/paper_d", "prompts", "voices", "must_c/paper_b"):
        lines = called(noted, f"{name} --only results --utterances 1")
        reports = [line.split() for line in lines if line.startswith("simulst report")]
        written = [line.split() for line in lines if line.startswith("python ../../local/results.py write")]
        sections = {line[line.index("--section") + 1]: line[3] for line in written}
        assert reports, name
        for _, _, runs, *given, _, out in reports:
            assert given == ["--utterances", "1"] and sections[Path(out).stem] == runs


def test_findings(noted: Path) -> None:
    """They are tested on the runs of the first split, and of other seeds; none is tested if none is given."""
    first, _, second, _ = called(noted, "mini --only results --seeds 'exp2 exp3'")
    assert "--findings ../../conf/findings/paper_c.yaml" in first and "--findings" not in second
    trainings = [f"{exp}/en-de/decode/en-de/tst-COMMON" for exp in ("exp", "exp2", "exp3")]
    assert re.findall(r"--training (\S+)", first) == trainings
    for name in ("mini", "mini/paper_a", "mini/paper_d", "mini/extras/full_context"):
        assert not any("--training" in line for line in called(noted, f"{name} --only results --findings ''"))
    for more in ("", "--findings f.yaml"):  # paper C's are not another system's
        assert ("--findings" in called(noted, f"mini --system b {more} --only results")[0]) == bool(more)
    assert "--findings f.yaml" in called(noted, "voices/cascade --only results --findings f.yaml")[-2]


def test_models_that_begin_with_the_offline_models_weights_have_its_encoder(noted: Path) -> None:
    options = "--stage pretrain --stop-stage train --ratios none --trained-waits '1 5' --offline-options '--seed 2'"
    lines = called(noted, f"mini/paper_d {options} --model-options '--encoder_conf num_blocks=2'")
    trainings = [line for line in lines if line.startswith("simulst train espnet")]
    extra = [line.split(" -- ")[1] for line in trainings]
    assert extra == ["--encoder_conf num_blocks=2 --seed 2", *["--encoder_conf num_blocks=2"] * 3]
    encoders = []
    for training in trainings:
        text = (noted / "egs/mini" / re.search(r"--config (\S+)", training)[1]).read_text()  # type: ignore[index]
        encoders.append(re.search(r"^encoder: .*?^decoder:", text, flags=re.DOTALL | re.MULTILINE)[0])  # type: ignore[index]
    assert encoders[0].startswith("encoder: conformer\n") and encoders == [encoders[0]] * 4


def test_must_c_has_what_the_papers_have(noted: Path) -> None:
    """What differs between languages and systems: weights of the search, dropout, averages, augmentation, k."""
    touch(noted / "other/en-de/train/wav.scp")

    def lines(name: str, pair: str, options: str) -> list[str]:
        return called(noted, f"must_c{name} --pairs '{pair}' --ngpu 0 {options}")

    for pair, weight, pieces in (("en-de", "0.3", "4000"), ("en-zh", "0.4", "8000")):
        tokens, _ = lines("", pair, "--only tokens")
        assert f" --size {pieces} --kind unigram" in tokens
        assert lines("", pair, "--only choose")[0].endswith(f" --counts 1 5 10 --ctc-weight {weight}")
    assert "--ctc-weight" not in lines("", "en-de", "--only choose --search-weights dev")[0]
    for pair, plain in (("en-de", [False, True, True]), ("en-pt", [True] * 3)):
        trained = [line for line in lines("/paper_b", pair, "--only train") if "train espnet" in line]
        assert ["--specaug none" in line for line in trained] == plain
        assert f"--set ratio={'1.6' if pair == 'en-pt' else 'null'}" in lines("/paper_b", pair, "--only decode")[0]
    for pair, dropout, last, waits in (("en-de", False, False, 10), ("en-ja", True, True, 13)):
        found = lines("/paper_d", pair, "--stage audio --stop-stage decode --ratios none")
        assert all("--speeds 1.0" in line for line in found if "prepare_data.py dump" in line and "/pairs/" not in line)
        trained = [line for line in found if "train espnet" in line]
        assert "--task asr" in trained[0] and len(trained) == 3 + waits
        others = [trained[1], *trained[3:]]  # the offline model, and those for wait-k; not the one of prefix pairs
        assert all(f" --encoder exp/{pair}/offline-asr/valid.acc.best.pth " in line for line in others)
        assert all(("--patience 32 --encoder_conf dropout_rate=0.2" in line) == dropout for line in others)
        assert ("--encoder_conf dropout_rate=0.2 --decoder_conf dropout_rate=0.2 " in trained[2]) == dropout
        assert all(("--keep_nbest_models" in line) == last for line in trained[1:]), "else the best"
        chosen = [line for line in found if "train average" in line]
        assert len(chosen) == (2 + waits if last else 1), "also of the models of prefix pairs and for wait-k"
        assert all((" --counts 10 " in line and line.endswith(" --last")) == last for line in chosen)
        decoded_by = [line for line in found if "simulst sweep" in line]
        assert len(decoded_by) == 2 + waits
        assert all(("checkpoint=chosen.pth" in line) == last for line in decoded_by[1:])
    found = lines("", "en-de", "--others ../../other --stage audio --stop-stage tokens")
    assert "--out data/en-de+others/train --also ../../other en-de" in found[0] and "--also" not in found[2]
    assert "simulst train tokens data/en-de+others/dump/train/text.tc.de" in found[4]
    for pairs in ("en-de", "en-de en-ja"):
        [line] = lines("/paper_a", pairs, "--others ../../other --only train")
        assert line.count("--pair en-de ") == 2 and "--train ../../other/en-de/train --valid data/en-de/dev" in line
        assert line.count("--pair ") == 1 + len(pairs.split())


def test_another_corpus_without_the_pairs_is_told_before_the_first_stage(noted: Path) -> None:
    touch(noted / "other/en-de/train/wav.scp")
    for name in ("must_c", "must_c/paper_a", "must_c/paper_b", "must_c/paper_d", "must_c/extras/wavlm"):
        done = call(noted, f"{name} --others '../../other data/no' --ngpu 0 --stop-stage train")
        fails(done, "--others data/no: no en-de/train there; paths begin in egs/must_c")


def decoded(root: Path, name: str, pair: str, options: str = "") -> set[str]:
    """The labels of all configurations that paper D's script decodes."""
    touch(root / f"egs/{name}/exp/{pair}/prefix/predictor/predictor.pth")
    labels = set()
    option = "--pair" if name == "mini" else "--pairs"
    for line in called(root, f"{name}/paper_d {option} {pair} {options} --only decode"):
        values = parse_values(re.findall(r"--set (.*?)(?= --|$)", line))
        [sweep] = re.findall(r"--decodings (\S+)", line)
        labels |= {decoding.label for decoding in load_sweep(root / "egs" / name / sweep, values)}
    return labels


def test_kinds_of_wait_may_be_left_out(noted: Path) -> None:
    everything, without = decoded(noted, "mini", "en-de"), decoded(noted, "mini", "en-de", "--trained-waits ''")
    assert {"wait-5-bidirectional_beam5-ctc0", "test-time-wait-5-N1_all_beam5-ctc0"} <= everything - without
    assert "test-time-wait-5_beam5-ctc0" in without


@pytest.mark.parametrize("name", ["mini", "must_c"])
@pytest.mark.parametrize("pair", ["en-de", "en-ja"])
def test_paper_ds_script_decodes_what_its_findings_compare(noted: Path, name: str, pair: str) -> None:
    labels = decoded(noted, name, pair)
    [findings] = load_findings([ROOT / "conf/findings/paper_d.yaml"]).values()
    for finding in findings:
        for pattern in (*finding.a, *finding.b) if finding.is_for(pair[-2:]) else ():
            assert any(fnmatchcase(label, pattern) for label in labels), f"{finding.id}: {pattern}"


def test_paper_bs_models_begin_with_one_recognition_model(noted: Path) -> None:
    """Three models, with their own tokens and configuration, and the findings over all seeds."""
    given = '--pair en-ja --train-options "--seed 2" --seeds more --counts "1 2"'
    lines = called(noted, f"mini/paper_b {given} --exp other")
    tokens = [line for line in lines if "train tokens" in line and "text.tc.ja" in line]
    kinds = [re.sub(".* --size (.*)", r"\1", line) for line in tokens]
    assert kinds == ["700 --kind char", "400 --kind bpe", "2000 --kind bpe"]
    trainings = [line for line in lines if "train espnet" in line]
    assert "--task asr" in trainings[0] and " --out other/b-char/en-ja/asr " in trainings[0]
    for name, line in zip(("b-char", "b-bpe400", "b-bpe2000"), trainings[1:], strict=True):
        assert f" --out other/{name}/en-ja/st " in line and line.endswith(" -- --seed 2")
        assert " --encoder other/b-char/en-ja/asr/valid.acc.best.pth " in line
    assert sum("decode/paper_b.yaml" in line for line in lines) == 6
    findings = [line for line in lines if "--findings" in line]
    assert findings == [
        f"python ../../local/results.py write --findings ../../conf/findings/{file}.yaml --training other/b-*/en-ja "
        f"--training more/b-*/en-ja --recipe mini --section {section}-findings-en-ja --out other "
        f"--command ./run.sh --recipe mini/paper_b {given}"
        for section, file in (("paper_b", "paper_b"), ("paper_b-pieces", "paper_b_pieces"))
    ]


def test_some_of_paper_bs_models(noted: Path) -> None:
    """Without characters, their recognition model is still the one that the others begin with."""
    lines = called(noted, "mini/paper_b --tokens bpe400")
    trained = [re.findall(r" --out (\S+)", line)[0] for line in lines if "train espnet" in line]
    assert trained == ["exp/b-char/en-de/asr", "exp/b-bpe400/en-de/st"]
    assert not any("--findings" in line for line in lines)


def test_paper_bs_models_without_recognition(noted: Path) -> None:
    lines = called(noted, "mini/paper_b --asr false")
    trainings = [line for line in lines if "train espnet" in line]
    assert len(trainings) == 3 and not any("--task asr" in line or "--encoder " in line for line in trainings)


def test_a_guide_of_another_system(noted: Path) -> None:
    recipe = noted / "egs/mini"
    for guide in ("exp/en-de/st", "exp/guide/en-de/st", "exp/R&D#1/en-de/st"):
        touch(recipe / guide / "chosen.pth", recipe / "exp/en-de/offline/chosen.pth")
        option = "" if guide == "exp/en-de/st" else f"--guide '{guide}'"
        line = called(noted, f"mini/extras/guided --only decode {option}")[0]
        [value] = re.findall(r"--set (.*?)(?= --|$)", line)
        decodings = load_sweep(ROOT / "conf/decode/paper_c_guided.yaml", parse_values([value]))
        assert {one.stop.model for one in decodings if isinstance(one.stop, CTCGuide)} == {guide}
        assert "--model exp/en-de/offline " in line and "--out exp/en-de/decode/en-de/tst-COMMON " in line


def test_must_c_prepares_all_splits_that_are_named(noted: Path) -> None:
    for option, splits in (("", "train dev tst-COMMON"), ("--tests 'tst-COMMON own'", "train dev tst-COMMON own")):
        for name in ("must_c", "must_c/paper_a", "must_c/paper_d", "must_c/extras/wavlm", "must_c/extras/model_a"):
            assert f"--splits {splits} --out" in called(noted, f"{name} --only data {option}")[0]


def test_results_name_the_options_that_made_them(noted: Path) -> None:
    """All that change results, as they were given; not those that say where and how to run."""
    options = '--pair "en-de en-ja" --counts "1 2" --asr --limits "" --train-options --seed=2 --ngpu 2'
    lines = called(noted, f"mini {options} --stage 10 --stop-stage 10 --jobs 1 --exp exp")
    lines = [line for line in lines if not line.startswith("simulst report")]
    assert all(line.endswith(f"--command ./run.sh --recipe mini {options}") for line in lines) and len(lines) == 4
    line = called(noted, "mini/paper_a --prefixes all --only results")[0]
    assert line.endswith("--command ./run.sh --recipe mini/paper_a --prefixes all")


def rehearsed(root: Path, command: str) -> str:
    """What a script says of the calls that it will make, without making them; they are read by the real program."""
    call(root, command)
    with contextlib.chdir(root / "egs" / re.split("[ /]", command)[0]):
        done = CliRunner().invoke(rehearse.main, [], input=(root / "rehearsed").read_text())
    return str(done.exception or "")


@pytest.mark.usefixtures("warm_programs")
@pytest.mark.parametrize("name", SCRIPTS)
def test_what_is_called_by_default_is_called_rightly(noted: Path, name: str) -> None:
    model = noted / "egs/mini/exp/en-de"
    touch(model / "st/chosen.pth", model / "offline/chosen.pth")
    touch(noted / "egs/must_c/exp/en-de/st/chosen.pth", noted / "egs/must_c/exp/en-de/offline/chosen.pth")
    assert rehearsed(noted, f"{name} --ngpu 0" if "--ngpu" in shown(name) else name) == ""
    assert (noted / "rehearsed").stat().st_size


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("mini --decodings none.yaml", "stage 8, decode: none.yaml: no such configuration file"),
        ("mini --config bad.yaml", "stage 4, stats: bad.yaml: not a mapping of options"),
        ("mini --train-options '--max_epoh 5'", "stage 6, train: ../../conf/train/mini_st.yaml: ESPnet says"),
        ("mini/paper_d --wait-options '--seed x'", "stage 6, train: ../../conf/train/mini_wait.yaml: ESPnet"),
        ("mini/paper_d --prefix-config key.yaml", "stage 6, train: key.yaml: ESPnet says 'unrecognized"),
        ("mini/paper_d --wait-config value.yaml", "stage 6, train: value.yaml: ESPnet says '--encoder must be"),
        ("mini --limits '--limt 5'", "stage 8, decode: simulst sweep: No such option '--limt'"),
        ("mini --findings none.yaml", "stage 10, results: none.yaml: no such file of findings"),
        ("mini --counts '1 x'", "stage 7, choose: simulst train average: Invalid value for '--counts'"),
        ("mini/paper_a --config ../../conf/train/mini_st.yaml", "stage 6, train: ../../conf/train/mini_st.yaml: "),
        ("mini/paper_b --decodings bad.yaml", "stage 8, decode: bad.yaml: a grid must be"),
        ("mini/paper_d --predictor-options '--hiden 3'", "stage 6, train: simulst prefix predictor: No such option"),
        ("must_c --ngpu 0 --findings bad.yaml", "stage 10, results: bad.yaml: a file of findings is"),
        ("voices/cascade --recognisers bad.yaml", "stage 8, decode: bad.yaml: a grid must be"),
        ("voices/finetune --config none.yaml", "stage 6, train: none.yaml: no such"),
    ],
)
@pytest.mark.usefixtures("warm_programs")
def test_what_the_last_stage_needs_is_looked_at_before_the_first(noted: Path, command: str, message: str) -> None:
    for file, text in {"bad": "- 1\n", "key": "max_epoh: 1\n", "value": "encoder: best\n"}.items():
        (noted / "egs" / command.split("/")[0].split()[0] / f"{file}.yaml").write_text(text)
    assert rehearsed(noted, command).startswith(message)


def test_a_mistyped_option_ends_before_anything_is_written(tmp_path: Path) -> None:
    mini = f"mini --data {tmp_path}/data --exp {tmp_path}/exp"
    for option, stage in (("decodings", "8, decode"), ("findings", "10, results")):
        done = call(ROOT, f"{mini} --{option} none.yaml")
        assert done.returncode == 1 and not done.stdout and not [*tmp_path.iterdir()]
        assert done.stderr.startswith(f"error: stage {stage}: none.yaml: no such")
    fails(call(ROOT, f"{mini} --asr-model none.pth"), "--asr-model none.pth: no such file")


def fails(result: subprocess.CompletedProcess[str], message: str) -> None:
    said = result.stderr
    assert result.returncode == 1 and said.startswith(f"error: {message}") and said.count("\n") == 1, said


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("mini --sise large", "unknown option --sise; see"),
        ("mini '--= x'", "unknown option --="),
        ("mini --a[0] x", "unknown option --a[0]"),
        ("mini --stage a[0]", "--stage 'a[0]': there is no such stage"),
        ("mini/paper_d --tau 50", "--tau 50: give frames of 10 ms, a multiple of 4"),
        ("prompts --stage 3 --stop-stage 7", "--stage 3: prompts needs no stage 3, tokens; it has 1 data"),
        ("mini --size huge", "--size 'huge': give small or large"),
        ("mini --style ''", "--style '': give sentences or talk"),
        ("mini --tests", "--tests needs a value"),
        ("mini en-de", "unexpected argument 'en-de'"),
        ("mini --train 5e3", "--train '5e3' is not a whole number; see"),
        ("mini --data 'my data'", "--data 'my data': give a path without blanks"),
        ("mini --stage foo", "--stage 'foo': there is no such stage; mini has 1 data, 2 audio,"),
        ("mini --only decode --stage 3", "--only stands alone, without --stage and --stop-stage"),
        ("mini --stage train --stop-stage 3", "--stage train comes after --stop-stage tokens"),
        ("mini --stage 5 --stop-stage 5", "--stage 5: there is no training for recognition with"),
        ("mini/paper_d --only choose", "--only choose: mini/paper_d needs no stage 7, choose; it has 1 data,"),
        ("mini/paper_b --tokens bpe", "--tokens 'bpe': give char, or bpe and the number of pieces"),
        ("must_c/paper_d --pairs 'en-de en-fr'", "'en-de en-fr': must_c/paper_d is for one pair of languages"),
    ],
)
def test_bad_options_end_in_a_sentence(command: str, message: str) -> None:
    fails(call(ROOT, command), message)


ST = "exp/en-de/st/chosen.pth: missing; ./run.sh --recipe"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("mini/paper_d --only decode", "exp/en-de/prefix/predictor: missing; ./run.sh --recipe mini/paper_d --stop-"),
        ("mini/extras/guided --only decode", f"{ST} mini --stop-stage choose makes it"),
        ("mini/extras/terms --only decode", f"{ST} mini --stop-stage choose makes it"),
        ("must_c/extras/wavlm --only decode", f"{ST} must_c --pairs en-de --stop"),
        ("mini/paper_a --prefixes all --stage train", "exp/en-de/prefix/pairs/all/train: missing; ./run.sh --recipe m"),
    ],
)
def test_what_is_missing_names_the_command_that_makes_it(noted: Path, command: str, message: str) -> None:
    fails(call(noted, command), message)


def test_training_without_a_gpu(tmp_path: Path) -> None:
    must_c, message = f"must_c --data {tmp_path}/data --exp {tmp_path}", "--ngpu 1: no GPU here; give --ngpu 0"
    fails(call(ROOT, f"{must_c} --stop-stage pretrain"), message)
    # A complete training needs none; this one was another, as the trainer says.
    touch(tmp_path / "en-de/asr/valid.acc.best.pth", tmp_path / "en-de/st/simulst.json")
    begun = {"command": [], "config": "seed: 1\n", "files": {}, "complete": True}
    (tmp_path / "en-de/st/simulst.json").write_text(json.dumps(begun, indent=1))
    assert "was begun with other options" in call(ROOT, f"{must_c} --only train").stderr
    fails(call(ROOT, f"{must_c} --only train --force"), message)


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_shellcheck_finds_nothing() -> None:
    done = subprocess.run(["shellcheck", "--severity", "warning", *SHELL], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
