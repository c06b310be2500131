"""The recipe iwslt, on a tiny folder in the organisers' layout with a film, and a model that is no Whisper."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import recipe
import sounds
import yaml

from make_small import write_film
from published.section import read_section
from simulst.config import load_sweep
from simulst.log import read_log
from simulst.results.runs import find_runs

RATE = 16000
SWEEP = """
read: {type: chunk, ms: [500, 1000]}
commit: {type: local_agreement, n: 2}
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All stages; what they printed is in `output`."""
    place = tmp_path_factory.mktemp("iwslt")
    names = ("second", "first")
    audio = {name: np.random.default_rng(len(name)).uniform(-0.5, 0.5, 4 * RATE) for name in names}
    rows = [(name, i + 0.5, 1.4) for name in names for i in (0, 2)]
    texts = {language: [f"{language} sentence {n}" for n in range(4)] for language in ("es", "en")}
    folder = sounds.write_iwslt(place / "dev", audio, rows, texts)
    write_film(folder / "audio/first.mp4", audio["first"].astype(np.float32))
    (folder / "audio/first.wav").unlink()
    (folder / "papers").write_text("a.text\nb.text\n")
    for name in ("a", "b"):
        (folder / f"{name}.text").write_text(f"Paper {name}.\n")
    command = f"iwslt --folder {folder} --context {folder}/papers --model fake:FakeModel"
    command += f" --regimes '0-3000 3000-3001' --published {place}/published.yaml --decodings {place}/candidates.yaml"
    figures = {"system": "others", "about": "a cascade", "source": "a page", "points": [{"BLEU": 9, "LongYAAL": 900}]}
    (place / "published.yaml").write_text(yaml.safe_dump({"data": "some talks", "systems": [figures]}))
    (place / "candidates.yaml").write_text(SWEEP)
    (place / "output").write_text(recipe.run(command, place))
    return place


def test_recordings_are_decoded_whole_and_in_order(done: Path) -> None:
    runs = find_runs([done / "exp"])
    assert {run.parent for run in runs} == {done / "exp/fake-FakeModel/es-en-dev"}
    assert [run.name for run in runs] == ["LA-2_1000ms", "LA-2_500ms"]
    for run in runs:
        log = read_log(run / "instances.log")
        assert [one.recording for one in log] == ["second", "first"] and log[0].source_length == 4000
        scores = json.loads((run / "scores.json").read_text())
        assert scores["recordings"] == 2 and scores["sentences"] == 4 and scores["LongYAAL"] is not None


def test_the_choice_of_each_regime_is_a_file(done: Path) -> None:
    place = done / "exp/fake-FakeModel/es-en-dev/chosen"
    assert sorted(path.name for path in place.iterdir()) == ["0-3000.yaml", "choice.txt"]
    chosen = yaml.safe_load((place / "0-3000.yaml").read_text())
    assert chosen["model"] == "fake:FakeModel" and (chosen["source_lang"], chosen["target_lang"]) == ("es", "en")
    assert chosen["scores"] == json.loads((Path(chosen["run"]) / "scores.json").read_text())
    assert Path(chosen["log"]).is_file() and chosen["runs"] == 2
    (done / "again.yaml").write_text(yaml.safe_dump(chosen["decoding"]))
    assert [one.label for one in load_sweep(done / "again.yaml")] == [Path(chosen["run"]).name]
    assert "3001 ms: no configuration lies there" in (done / "output").read_text()


def test_the_results_have_the_choice_and_others_figures(done: Path) -> None:
    section = read_section(done / "exp/results/fake-FakeModel-es-en-dev.json")
    assert section.curve == ("LongYAAL",) and len(section.runs) == 2
    assert section.text == (done / "exp/fake-FakeModel/es-en-dev/chosen/choice.txt").read_text().strip()
    assert [(one.curve, one.scores) for one in section.published] == [
        ("others (published)", {"BLEU": 9.0, "LongYAAL": 900.0})
    ]
    page = (done / "exp/RESULTS.md").read_text()
    assert "Published figures of others, on some talks:" in page and "* others: a cascade (a page)" in page
    picture = (done / "exp/results/fake-FakeModel-es-en-dev.svg").read_text()
    assert "others (published)" in picture


@pytest.mark.parametrize("name", ["offline", "cascade", "blockwise"])
def test_candidates_are_for_whole_recordings(name: str) -> None:
    for decoding in load_sweep(recipe.EGS / f"iwslt/conf/{name}.yaml"):
        assert decoding.raw["segment"]["type"] == "pause"
