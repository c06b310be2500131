"""Stages that put a Whisper online beside its other forms, with terms, and in cascades: a tiny model, and noise."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path

import debs
import fake_runs
import numpy as np
import pytest
import recipe
import soundfile
import sounds
import tiny_huggingface
import tiny_whisper
import tracked
import yaml
from click.testing import CliRunner

import write_cascades
from published.section import read_section
from simulst.log import read_log
from simulst.models.cascade.settings import read_settings
from simulst.results.runs import find_runs
from simulst.runs.score import score_run
from speech import espeak
from whisper_to_huggingface import convert_whisper

SWEEP = "- {read: {type: chunk, ms: 500}, commit: {type: hold, n: 1}}\n"
OFFLINE = "- {read: {type: offline}, commit: {type: all}}\n"
TEXTS = {"u0": "the cats sat", "u1": "on their mats"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipes with their models and data, and short sweeps."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("conf", "local", "benchmarks", ".venv"):
        (folder / name).symlink_to(recipe.ROOT / name)
    noise = {name: np.random.default_rng(n).uniform(-0.3, 0.3, 16000) for n, name in enumerate(TEXTS)}
    model = tiny_huggingface.write(folder / "tiny", "whisper", positions=448)
    for name, pair in (("prompts", "es-en"), ("voices", "en-es")):
        place = folder / "egs" / name
        tracked.copy(folder, f"egs/{name}")
        tiny_huggingface.to_ctranslate2(model, place / "models/whisper-base")
        convert_whisper(place / "models/whisper-base", place / "models/whisper-base-hf", force=False)
        for split in ("train", "dev", "tst"):
            sounds.write(place / "data" / pair / split, noise, dict.fromkeys(pair.split("-"), TEXTS))
    searches = "[{type: ibwbs, beam: 2, ctc_weight: 0.0}, {type: bwbs, beam: 2, ctc_weight: 0.0}]"
    sweeps = dict.fromkeys(("prompts/conf/forms", "prompts/conf/forms_huggingface"), SWEEP + OFFLINE)
    sweeps |= dict.fromkeys(("prompts/conf/terms", "prompts/conf/terms_in_text", "voices/conf/cascade"), SWEEP)
    sweeps["prompts/conf/paper_c"] = SWEEP.replace("}}", f"}}, search: {searches}}}")
    sweeps["voices/conf/cascade_recognisers"] = SWEEP + OFFLINE
    for file, text in sweeps.items():
        (folder / f"egs/{file}.yaml").write_text(text)
    return folder


def run(folder: Path, command: str) -> str:
    done = recipe.call(folder, f"{command} --jobs 1")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def runs(folder: Path) -> set[str]:
    return {str(found.relative_to(folder)) for found in find_runs([folder])}


@pytest.fixture(scope="module")
def prompts(checkout: Path) -> Path:
    """The folder of the results of three extras."""
    (checkout / "egs/prompts/data/es-en/dev/text.en").write_text("u0 the the the sat on\n")
    for name in ("forms", "terms", "paper_c"):
        run(checkout, f"prompts/extras/{name} --stage decode")
    return checkout / "egs/prompts/exp"


def test_one_command_to_translated_words(tmp_path: Path) -> None:
    """The recording's package and a model, then words, then commands that are there. What is unpacked stays."""
    for name in ("conf", "local", ".venv"):
        (tmp_path / name).symlink_to(recipe.ROOT / name)
    tracked.copy(tmp_path, "egs/prompts")
    tiny_whisper.write(tmp_path / "tiny", eos=6, languages=("en", "it"))
    recording, wav = "usr/share/asterisk/sounds/it_IT_m_Carlo/demo-congrats.wav", io.BytesIO()
    with espeak() as say:
        soundfile.write(wav, say("The old man sleeps.", "en-us+f3", 150, 50), 16000, format="WAV")
    package = tmp_path / "egs/prompts/downloads/asterisk-core-sounds-it-wav_1_all.deb"
    package.parent.mkdir()
    debs.deb(package, {recording: wav.getvalue()})
    done = recipe.call(tmp_path, f"prompts/try --model {tmp_path}/tiny")
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^ +[12]\.\d\d s  \S", done.stdout, flags=re.MULTILINE) and "demo-congrats.wav" in done.stdout
    following = done.stdout.split("Next")[1]
    assert len(re.findall(r"^  (?:simulst|\./run\.sh) ", following, flags=re.MULTILINE)) == 3
    for name in re.findall(r"--recipe (\S+)|--model (\S+)", following):
        assert (tmp_path / (name[1] or f"egs/{name[0]}/run.sh")).exists()
    package.write_bytes(b"broken")
    done = recipe.call(tmp_path, "prompts/try --stop-stage data")
    assert done.returncode == 0 and "Next" not in done.stdout


def test_the_test_bed_at_low_lag(checkout: Path, tmp_path: Path) -> None:
    """Two test sets are pooled, and each run is compared to the baseline."""
    all_words = OFFLINE.replace("offline", "chunk, ms: 1000")
    (checkout / "egs/prompts/conf/low_lag.yaml").write_text(SWEEP + all_words)
    command = f"prompts/extras/low_lag --exp {tmp_path} --tests dev --pairs es-en"
    run(checkout, f"{command} --only decode")
    shutil.copytree(tmp_path / "low-lag/es-en-dev", tmp_path / "more")
    run(checkout, f"{command} --stage score --with {tmp_path}/more --baseline hold-1_500ms --utterances 0")
    section = read_section(tmp_path / "results/low-lag-pooled-dev.json")
    assert {one.name: one.scores["sentences"] for one in section.runs} == {"hold-1_500ms": 4, "all_1000ms": 4}
    assert {one.system for one in section.comparisons} == {"all_1000ms"}


def test_the_same_weights_in_two_forms(prompts: Path) -> None:
    forms = {found.split("/")[0] for found in runs(prompts / "forms")}
    assert {"ctranslate2-int8", "ctranslate2-float32", "huggingface-float32"} <= forms
    names = {run.name for run in read_section(prompts / "results/forms-es-en-tst.json").runs}
    assert names == {f"{form}/{label}" for form in forms for label in ("hold-1_500ms", "offline")}
    page = (prompts / "RESULTS.md").read_text()
    assert "Equal texts of 2 " in page and "huggingface-float32/offline " in page.split("Equal texts")[1]


def test_recall_of_rare_words(prompts: Path) -> None:
    """All runs are scored on the same terms; one was told them as terms, and one as a text."""
    assert runs(prompts / "terms") == {"in_text/hold-1_500ms", "with/hold-1_500ms", "without/LA-2w_1000ms"}
    assert " Terms |" in (prompts / "RESULTS.md").read_text()
    terms = {found.parent.name: read_log(found)[0].terms for found in find_runs([prompts / "terms"])}
    assert sorted(terms["with"]) == ["cats", "mats", "their"] and not terms["without"] and not terms["in_text"]
    text = (prompts.parent / "data/es-en/context_text.tsv").read_text()
    assert text.splitlines()[:2] == ["recording\ttarget_text", "u0\tcats, mats, their"]
    for found in find_runs([prompts / "terms"]):
        assert json.loads((found / "scores.json").read_text())["terms"] == 3


def test_paper_cs_searches(prompts: Path) -> None:
    """Whisper by BWBS and IBWBS: a table, and findings, which these two runs alone leave undecided or missing."""
    assert runs(prompts / "full-context") == {"hold-1_BWBS-beam2-ctc0_500ms", "hold-1_IBWBS-beam2-ctc0_500ms"}
    section = read_section(prompts / "results/paper_c-es-en-tst.json")
    assert len(section.runs) == 2 and section.findings
    page = (prompts / "RESULTS.md").read_text()
    assert "| hold-1_BWBS-beam2-ctc0_500ms " in page and "runs missing" in page


def test_cascades_that_show_unstable_words(checkout: Path) -> None:
    """Both kinds have names and files of their own."""
    place = checkout / "cascades"
    place.mkdir()
    (checkout / "recogniser.yaml").write_text(SWEEP)
    options = f"--model {checkout}/m --decodings {checkout}/recogniser.yaml --out {place} --translator"
    for more, name in (([], "hold-1_500ms"), (["--unstable"], "hold-1_500ms-unstable")):
        command = [*options.split(), "{type: apertium:Apertium}", *more]
        assert CliRunner().invoke(write_cascades.main, command).output == f"{name}\n"
        settings = read_settings(place / f"{name}.yaml")
        assert settings.unstable == bool(more) and settings.recogniser["model"] == str(checkout / "m")
        assert settings.translator == {"type": "apertium:Apertium"}


UNO = """
from dataclasses import dataclass
from simulst.calls import Turns
from simulst.models.cascade.translators import PlainTranslation, Translator

@dataclass(frozen=True)
class Uno(Translator):
    def load(self, path, cores):
        return lambda opening: Unos(opening.target, Turns(1))

class Unos(PlainTranslation):
    def translate(self, sentence, begin, past=()):
        return " ".join("uno" for _ in sentence.split()), False
"""


def test_cascades(checkout: Path) -> None:
    """A cascade for each policy of the recogniser; a translator of one's own writes `uno` for each word."""
    (checkout / "egs/voices/local/uno.py").write_text(UNO)
    run(checkout, "voices/cascade --translator '{type: uno:Uno}' --stage decode")
    exp = checkout / "egs/voices/exp"
    assert runs(exp / "cascade") == {"decode/en-es/tst/hold-1_500ms/hold-1_500ms", "decode/en-es/tst/offline/offline"}
    for found in find_runs([exp / "cascade"]):
        written = [word for instance in read_log(found) for word in instance.prediction.split()]
        assert set(written) == {"uno"}
    section = read_section(exp / "results/cascade-en-es-tst.json")
    assert len(section.runs) == 2 and not section.findings
    assert (exp / "results/cascade-en-es-tst.svg").is_file()


def test_cascades_with_a_language_model(checkout: Path) -> None:
    """It goes by its attention, over what Whisper hears, and over the transcript of talks at its times."""
    chat = tiny_huggingface.write_language_model(checkout / "chat")
    (checkout / "egs/iwslt").symlink_to(recipe.ROOT / "egs/iwslt")
    texts = {language: ["One two three.", "Four five."] for language in ("en", "es")}
    sounds.write_iwslt(checkout / "dev", {"talk": np.zeros(64000)}, [("talk", 0.5, 1.4), ("talk", 2, 1.4)], texts)
    stop = "stop: {type: align_att, words: 0, pairs: [[0, 0]]}"
    (checkout / "llm.yaml").write_text(SWEEP + OFFLINE.replace("offline}", f"chunk, ms: 500}}, {stop}"))
    command = f"voices/llm --pairs en-es --llm {chat} --decodings {checkout}/llm.yaml --findings '' --dtype bfloat16"
    place = checkout / "egs/voices"
    for only, exp, split in (("--stage decode", "exp", "tst"), (f"--folder {checkout}/dev", "exp-talks", "dev")):
        run(checkout, f"{command} {only} --exp {exp}")
        found = runs(place / exp / "llm-chat")
        assert found == {f"decode/en-es/{split}/{name}" for name in ("hold-1_500ms", "all_AlignAtt0w-P0.0_500ms")}
        section = read_section(place / exp / f"results/llm-chat-en-es-{split}.json")
        assert len(section.runs) == 2 and ("LongYAAL" in section.curve) == (split == "dev")
    settings = read_settings(place / "exp-talks/llm-chat/en-es-dev.yaml")
    assert settings.recogniser["transcript"] == str(place / "data/dev") and settings.translator["dtype"] == "bfloat16"
    assert all("LongYAAL" in one.scores for one in section.runs)


def test_talks(checkout: Path) -> None:
    """The prompts are joined, decoded and scored, with a curve over the lag of recordings."""
    (checkout / "sweep.yaml").write_text(SWEEP)
    command = f"prompts/extras/talks --pairs es-en --decodings {checkout}/sweep.yaml --exp exp-talks"
    run(checkout, f"{command} --only audio")
    run(checkout, f"{command} --stage decode")
    exp = checkout / "egs/prompts/exp-talks"
    assert runs(exp / "talks") == {"es-en-long/hold-1_500ms", "es-en-natural/hold-1_500ms"}
    for pauses in ("natural", "long"):
        assert "LongYAAL" in read_section(exp / f"results/talks-es-en-{pauses}.json").runs[0].scores
        assert "LongYAAL" in (exp / f"results/talks-es-en-{pauses}.svg").read_text()


def test_choice_by_regime(checkout: Path) -> None:
    """The dev prompts are joined, decoded and scored; the page names the best configuration of each regime."""
    (checkout / "egs/prompts/data/es-en/dev/text.en").write_text("u0 the cats sat\nu1 on their mats\n")
    (checkout / "egs/prompts/conf/regimes.yaml").write_text(SWEEP.replace("500", "[500, 1000]"))
    run(checkout, "prompts/extras/regimes --only audio --exp exp-regimes")
    said = run(checkout, "prompts/extras/regimes --stage decode --exp exp-regimes")
    exp = checkout / "egs/prompts/exp-regimes"
    assert runs(exp / "regimes") == {"hold-1_1000ms", "hold-1_500ms"}
    choice = (exp / "regimes.txt").read_text()
    assert choice.startswith("LongYAAL up to 2000 ms: ") and "\n\nLongYAAL above 2000, up to 4000 ms: " in choice
    assert choice in said and read_section(exp / "results/regimes-es-en-dev.json").text.strip() == choice.strip()


def test_whisper_is_fine_tuned(checkout: Path) -> None:
    """Fine-tuning, conversion, decoding; all lines; the talks of the corpus."""
    place = checkout / "egs/voices"
    for name in ("others", "offline"):
        (place / f"conf/{name}.yaml").write_text(OFFLINE)
    config = {"epochs": 1, "learning_rate": 1e-4, "batch_seconds": 4, "padding_seconds": 1}
    (checkout / "finetune.yaml").write_text(yaml.safe_dump(config))
    command = f"voices/finetune --pairs en-es --tests tst --exp exp-real --config {checkout}/finetune.yaml"
    run(checkout, f"{command} --stage train")
    exp = place / "exp-real"
    assert (exp / "finetuned/ctranslate2/model.bin").is_file()
    assert runs(exp / "finetuned") == {f"decode/en-es/tst/{name}/offline" for name in ("base", "finetuned")}
    section = read_section(exp / "results/finetune-en-es-tst.json")
    assert {(one.baseline, one.system) for one in section.comparisons} == {("base/offline", "finetuned/offline")}
    run(checkout, f"{command} --compare --stage decode")
    compared = read_section(exp / "results/finetune-all-lines.json").comparisons
    names = tuple(f"en-es/tst/{model}/offline" for model in ("base", "finetuned"))
    assert {(one.baseline, one.system) for one in compared} == {names}
    run(checkout, "voices/extras/talks --pairs en-es --only audio")
    assert (place / "data/en-es/talks-tst/talks.es").read_text() == "the cats sat\non their mats\n"


def test_fine_tuned_runs_are_tested_against_those_before(checkout: Path) -> None:
    """Below each table, and whether or not a run is there."""
    exp = checkout / "egs/voices/exp-finetuned"
    for split in ("tst", "tst-other"):
        for model, wrong in (("base", 0.6), ("finetuned", 0.1)):
            folder = exp / "finetuned/decode/en-de" / split / model
            label = "offline" if (split, model) != ("tst-other", "base") else "LA-2_1000ms"
            score_run(fake_runs.write_run(folder, label, fake_runs.references(), wrong), "de", bootstrap=0)
    printed = run(checkout, f"voices/finetune --pairs en-de --exp {exp.name} --only results")
    tst, other = (read_section(exp / f"results/finetune-en-de-{split}.json") for split in ("tst", "tst-other"))
    assert [one.metric for one in tst.comparisons] == ["BLEU", "chrF"] and not other.comparisons
    assert "exp-finetuned/finetuned/decode/en-de/tst-other: has not both runs" in printed


def test_another_model_has_results_of_its_own(checkout: Path) -> None:
    place = checkout / "egs/voices"
    (place / "models/small").symlink_to("whisper-base")
    (place / "data/en-de").symlink_to("en-es")
    (place / "conf/paper_a.yaml").write_text(SWEEP)
    for model in ("", "--model somewhere/small"):
        run(checkout, f"voices --pairs en-en --exp exp-models --findings '' --stage decode {model}")
    exp = place / "exp-models"
    assert runs(exp) == {f"{model}/decode/en-en/tst/hold-1_500ms" for model in ("whisper", "whisper-small")}
    titles = [read_section(exp / f"results/en-en-tst{name}.json").title for name in ("", "-small")]
    assert titles == ["Whisper base put online, acted speech, en→en", "small put online, acted speech, en→en"]
