"""COMET: its own command's scores of each segment, kept in runs, with an interval and a paired test.

A model of random weights is scored by unbabel-comet in its own environment; what surrounds it is tried with a program
of the same options that counts what it is asked.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from fake_runs import configured, logged
from hypothesis import given, settings
from hypothesis import strategies as st
from printed import printed as simulst

from simulst.errors import SimulstError
from simulst.log.instance import Instance
from simulst.measure.comet import KEPT, Comet, Segment
from simulst.measure.file import write_scores
from simulst.measure.quality import mean_difference, mean_score
from simulst.runs.score import compare_runs, score_run

SCORING = Path(__file__).parents[2] / ".venv-scoring" / "bin"
SOURCES = ["hola mundo", "adios", "que tal estas", "muy bien", "gracias", "hasta luego"]
REFERENCES = ["hello world", "goodbye", "how are you", "very well", "thank you", "see you later"]
PREDICTIONS = ["hello world", "bye", "how you are", "very good", "", "see you"]

COUNTING = """#!{python}
import json, pathlib, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open({asked!r}, "a") as file:
    columns = [pathlib.Path(options["-" + name]).read_text().splitlines() for name in "st"]
    file.write(json.dumps([options["--model"], columns, "-r" in options]) + "\\n")
if options["--model"] == "broken":
    sys.exit("loading ...\\nKeyError: no such model.")
step = 0.5 if options["--model"] == "other" else 0.25
rows = [dict(COMET=step * len(text)) for text in columns[1]]
pathlib.Path(options["--to_json"]).write_text(json.dumps(dict(t=rows)))
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `comet-score` on the PATH whose score is a quarter of a text's length, and the file of what it was asked."""
    log = tmp_path / "asked"
    program = tmp_path / "bin" / "comet-score"
    program.parent.mkdir()
    program.write_text(COUNTING.format(python=sys.executable, asked=str(log)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("simulst.measure.comet.INSTALLED", tmp_path / "nowhere")
    return log


def make_run(folder: Path, predictions: Sequence[str], number: int = 0) -> Path:
    """A scored run of sentences."""
    rows = []
    for index, (prediction, reference) in enumerate(zip(predictions, REFERENCES, strict=True)):
        delays = [1000.0 + number] * len(prediction.split())
        rows.append(Instance(index, prediction, delays, delays, len(delays), reference, ["a.wav"], 3000.0, f"u{index}"))
    decoding = {"read": {"type": "chunk", "ms": 1000 + number}, "commit": {"type": "local_agreement", "n": 2}}
    task = {"source_language": "es", "target_language": "en"}
    score_run(logged(configured(folder, decoding, task=task), rows), "en", bootstrap=0)
    return folder


def test_of_comets_own_command(tmp_path: Path) -> None:
    """Each segment's score is the one that COMET's command gives for the same files, to the last digit."""
    if not (SCORING / "comet-score").is_file():
        pytest.skip("tools/install.sh --scoring was not called")
    model = tmp_path / "model"
    files = {"s": SOURCES, "t": PREDICTIONS, "r": REFERENCES}
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    options = [argument for name in files for argument in (f"-{name}", name)] + ["--gpus", "0", "--to_json", "theirs"]
    command = [SCORING / "python", "-W", "ignore", Path(__file__).with_name("tiny_comet.py"), model, "1", *options]
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    checkpoint = model / "checkpoints" / "model.ckpt"
    run = make_run(tmp_path / "run", PREDICTIONS)
    said = simulst("score", run, "--bootstrap", 50, "--comet", checkpoint, "--sources", tmp_path / "s")
    theirs = [row["COMET"] for row in json.loads((tmp_path / "theirs").read_text())["t"]]
    kept = json.loads((run / KEPT).read_text())
    assert list(kept["models"].values()) == [theirs] and len({*theirs}) > 3
    scores = json.loads((run / "scores.json").read_text())
    assert scores["COMET"] == pytest.approx(np.mean(theirs), abs=1e-4)
    assert scores["COMET_low"] < scores["COMET"] < scores["COMET_high"]
    assert f"COMET       {scores['COMET']:10.4f}  95 %: {scores['COMET_low']:.4f} to" in said


def test_scores_are_kept_by_text(asked: Path, tmp_path: Path) -> None:
    """What was scored is not asked again: not the same run, not the same text in another, not after the log changed."""
    sources = tmp_path / "s"
    sources.write_text("".join(line + "\n" for line in SOURCES))
    one = make_run(tmp_path / "runs" / "one", PREDICTIONS)
    command = ("--bootstrap", 0, "--comet", "model", "--comet", "other", "--sources", sources)
    said = simulst("score", one, *command)
    scores = json.loads((one / "scores.json").read_text())
    mean = np.mean([len(text) / 4 for text in PREDICTIONS])
    assert scores["COMET"] == pytest.approx(mean, abs=1e-4) and scores["COMET_model"] == "model"
    assert scores["COMET_models"]["other"]["score"] == pytest.approx(2 * mean, abs=1e-4)
    assert f"{mean:.4f}  model" in said and f"{2 * mean:.4f}  other" in said
    questions = [json.loads(line) for line in asked.read_text().splitlines()]
    assert [(model, columns) for model, columns, _ in questions] == [
        (model, [SOURCES, PREDICTIONS]) for model in ("model", "other")
    ]
    assert all(with_references for *_, with_references in questions)
    asked.unlink()
    simulst("score", one, *command)
    assert not asked.exists()
    score_run(one, "en", bootstrap=0)
    assert json.loads((one / "scores.json").read_text())["COMET"] == scores["COMET"], "kept, as the text is the same"

    # Without references, nothing but the log says whether the texts are the same.
    log = one / "instances.log"
    text = log.read_text()
    for found, stays in ((text, True), (text.replace("how you are", "are you how"), False)):
        log.write_text(text)
        write_scores(one, {"sentences": 6, "COMET": 0.5})
        log.write_text(found)
        assert ("COMET" in write_scores(one, {"sentences": 6})) == stays
    log.write_text(text)
    write_scores(one, scores)

    changed = [PREDICTIONS[0], "farewell", *PREDICTIONS[2:]]
    make_run(tmp_path / "runs" / "two", changed, 500)
    said = simulst("choose", tmp_path / "runs", "--quality", "COMET", *command[2:4], "--sources", sources)
    assert [json.loads(line) for line in asked.read_text().splitlines()] == [
        ["model", [[SOURCES[1]], ["farewell"]], True]
    ]
    assert "LA-2_1500ms (best of 2)" in said and "paired randomisation over 6 sentences" in said
    test = compare_runs(one, tmp_path / "runs" / "two", "COMET")
    assert test["COMET_difference"] == pytest.approx((8 - 3) / 4 / 6, abs=1e-4)
    assert test["COMET_p"] == 1.0, "one sentence differs, so each exchange is as extreme"
    against = ("--against", tmp_path / "runs" / "two", *command[:4], "--sources", sources, "--json")
    assert json.loads(simulst("score", one, *against))["against"]["COMET_difference"] == -test["COMET_difference"]
    log.write_text(text.replace("how you are", "are you how"))
    with pytest.raises(SimulstError, match="one: has no scores of single segments by model"):
        compare_runs(one, tmp_path / "runs" / "two", "COMET")


def test_sources_of_a_data_directory(asked: Path, tmp_path: Path) -> None:
    sources = tmp_path / "text.es"
    lines = [f"u{index} {text}\n" for index, text in enumerate(SOURCES)]
    sources.write_text("".join(reversed(lines)))
    run = make_run(tmp_path / "run", PREDICTIONS)
    simulst("score", run, "--bootstrap", 0, "--comet", "model", "--sources", sources)
    [question] = map(json.loads, asked.read_text().splitlines())
    assert question[1] == [SOURCES, PREDICTIONS]
    sources.write_text("".join(lines[1:]))
    with pytest.raises(SimulstError, match=r"text\.es: has no line of u0, which .*run has"):
        simulst("score", run, "--bootstrap", 0, "--comet", "model", "--sources", sources)


def test_what_goes_wrong(asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run", PREDICTIONS)
    sources = tmp_path / "s"
    sources.write_text("una\n" * 5)

    def fails(message: str, model: str = "model") -> None:
        before = (run / "scores.json").read_text()
        with pytest.raises(SimulstError, match=message):
            simulst("score", run, "--bootstrap", 0, "--comet", model, "--sources", sources)
        assert (run / "scores.json").read_text() == before and not (run / KEPT).exists()

    fails(r"s: 5 lines, but 6 segments; give a line for each")
    sources.write_text("una\n" * 6)
    fails(r"broken: COMET cannot use this model \(KeyError: no such model\)", "broken")
    fails(r"/lost\.ckpt: no such file; give a COMET checkpoint", f"{tmp_path}/lost.ckpt")
    monkeypatch.setenv("PATH", str(tmp_path))
    fails(r"COMET's metrics need the program comet-score; run tools/install\.sh --scoring")


def test_a_changed_checkpoint_is_another_model(asked: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "m.ckpt"
    segments = [Segment("una", "one", "one")]
    known: dict[str, dict[Segment, float]] = {}
    for content in ("a", "a", "b"):
        checkpoint.write_text(content)
        assert list(Comet((str(checkpoint),), known).scores(segments).values()) == [[0.75]]
    assert len(asked.read_text().splitlines()) == 2


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=6))
def test_the_paired_test_against_all_exchanges(pairs: list[tuple[int, int]]) -> None:
    """p is the share of exchanges whose difference is as large, counted one by one."""
    one, other = np.array(pairs, dtype=float).T / 8
    found = mean_difference(one.tolist(), other.tolist(), samples=200)
    differences = other - one
    signs = [np.array(signs) for signs in itertools.product((1, -1), repeat=len(pairs))]
    extreme = [abs((s * differences).sum()) >= abs(differences.sum()) - 1e-9 for s in signs]
    assert found.p == pytest.approx(np.mean(extreme))
    assert (found.p < 0.05) == (not found.low - 1e-9 <= 0 <= found.high + 1e-9)
    assert found.system - found.baseline == pytest.approx(differences.mean())


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "[" * 100_000,
        '{"log": 1}',
        '{"log": "x", "models": {"m": [1]}, "segments": [["a"]]}',
        '{"log": "x", "models": {"m": ["a"]}, "segments": [["a", "b", "c"]]}',
        '{"log": "x", "models": {"m": [NaN]}, "segments": [["a", "b", "c"]]}',
        '{"log": "x", "models": {"m": [1, 2]}, "segments": [["a", "b", "c"]]}',
    ],
)
def test_kept_scores_that_are_broken_are_made_again(asked: Path, tmp_path: Path, content: str) -> None:
    run = make_run(tmp_path / "run", PREDICTIONS)
    (run / KEPT).write_text(content)
    sources = tmp_path / "s"
    sources.write_text("".join(line + "\n" for line in SOURCES))
    simulst("score", run, "--bootstrap", 0, "--comet", "m", "--sources", sources)
    assert len(json.loads((run / KEPT).read_text())["models"]["m"]) == len(PREDICTIONS)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (None, "wrote no scores that can be read"),
        ("{}", "wrote no scores that can be read"),
        ('{"t": [{"COMET": NaN}]}', "wrote no scores that can be read"),
        ('{"t": []}', "wrote 0 scores of 1 segments"),
    ],
)
def test_another_comet_score(asked: Path, tmp_path: Path, written: str | None, message: str) -> None:
    program = tmp_path / "bin" / "comet-score"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nif {written!r} is not None:\n"
        f"    open(sys.argv[sys.argv.index('--to_json') + 1], 'w').write({written!r})\n"
    )
    with pytest.raises(SimulstError, match=f"m: .*comet-score {message}"):
        Comet(("m",)).scores([Segment("una", "one", "one")])


def test_the_interval_of_a_mean() -> None:
    """It is that of the normal distribution, where there are many segments."""
    values = np.random.default_rng(1).normal(0.5, 0.2, 2000)
    found = mean_score(values.tolist(), 2000)
    error = 1.96 * values.std() / np.sqrt(len(values))
    assert found.low == pytest.approx(values.mean() - error, abs=error / 8)
    assert found.high == pytest.approx(values.mean() + error, abs=error / 8)
    assert mean_score([0.5]).low is None
