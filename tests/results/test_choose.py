"""The best run of each regime: against sorting by hand, and what is said about it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from fake_runs import configured, logged

from simulst.commands.main import main
from simulst.config import parse_decoding
from simulst.errors import SimulstError
from simulst.log.instance import Instance
from simulst.results.choose import Regime, choose, parse_regime, report, write_choices
from simulst.runs.score import compare_runs, score_run

REFERENCES = ["the cat sat on the mat", "an old dog slept by it all day", "who was on the mat", "the dog saw a cat"] * 5
BOTH = [Regime(0, 2000), Regime(2000, 4000)]


def make(folder: Path, ms: int, lag: float, wrong: float = 0.0, seed: int = 0, **task: Any) -> Path:
    """A scored run that writes every word of a reference `lag` ms after 300 ms a word, a share of them wrong."""
    chance = random.Random(seed)
    read = {"type": "chunk", "ms": ms} if ms else {"type": "offline"}
    decoding = {"read": read, "commit": {"type": "local_agreement", "n": 2}}
    configured(folder, decoding, task={"target_language": "en", "unit": "", **task})
    log = []
    for i, reference in enumerate(REFERENCES):
        words = ["fish" if chance.random() < wrong else word for word in reference.split()]
        length = 300.0 * len(words) + 5000
        delays = [min(300.0 * j * length / (length - 5000) + lag, length) for j in range(len(words))]
        text = " ".join(words)
        log.append(Instance(i, text, delays, [d + 50 for d in delays], len(words), reference, ["a.wav"], length))
    score_run(logged(folder, log), "en", bootstrap=0)
    return folder


def scores(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "scores.json").read_text()))


@pytest.fixture
def sweep(tmp_path: Path) -> list[Path]:
    runs = [(500, 1000, 0.4, 1), (700, 1500, 0.05, 2), (1000, 2500, 0.02, 3), (2000, 3500, 0.02, 3), (0, 3000, 0.0, 4)]
    return [make(tmp_path / str(ms), ms, lag, wrong, seed) for ms, lag, wrong, seed in runs]


def test_choices_are_written_and_old_ones_removed(sweep: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "chosen"
    found = choose(sweep, "LAAL", [*BOTH, Regime(8000, 9000)])
    write_choices(out, found)
    assert sorted(path.name for path in out.iterdir()) == ["0-2000.yaml", "2000-4000.yaml"]
    low = yaml.safe_load((out / "0-2000.yaml").read_text())
    best = found[0]
    assert low["run"] == str(best.runs[0].folder) and low["runs"] == 2
    assert low["scores"] == scores(best.runs[0].folder) and low["metric"] == "LAAL"
    assert parse_decoding(low["decoding"], "test").label == best.runs[0].name
    assert CliRunner().invoke(main, ["choose", str(sweep[0]), "--out", str(out)]).exit_code == 0  # nothing to test
    assert [path.name for path in out.iterdir()] == ["0-2000.yaml"]


def test_a_model_that_is_not_found_from_here_is_told(sweep: list[Path], tmp_path: Path) -> None:
    """A run may name it by a path relative to where it was decoded."""
    change(sweep[0], task={"target_language": "en", "unit": "", "model": "models/elsewhere"})
    with pytest.raises(SimulstError, match="models/elsewhere is not there, seen from this folder; choose where"):
        write_choices(tmp_path / "chosen", choose(sweep[:1], "LAAL", BOTH[:1]))


def test_the_best_of_each_regime(sweep: list[Path]) -> None:
    for metric in ("LAAL", "AL", "LAAL_CA"):
        low, high = choose(sweep, metric, BOTH)
        assert [run.name for run in low.runs] == ["LA-2_700ms", "LA-2_500ms"]
        assert [run.name for run in high.runs] == ["LA-2_1000ms", "LA-2_2000ms"], "of equal BLEU, the smaller lag first"
        assert low.p is not None and low.p < 0.05 and low.sentences == len(REFERENCES)
        assert high.p == 1.0
        for choice in (low, high):
            assert all(choice.regime.holds(scores(run.folder)[metric]) for run in choice.runs)
    assert not choose(sweep, "LAAL", [Regime(4000, 5000)])[0].runs


def test_what_is_said(sweep: list[Path], tmp_path: Path) -> None:
    said = CliRunner().invoke(main, ["choose", str(tmp_path), "--regimes", "0-2000", "2000-4000", "4000-9000"]).stdout
    low, high, none = said.strip().split("\n\n")
    first, second = scores(sweep[1]), scores(sweep[0])
    assert low.startswith("LAAL up to 2000 ms: LA-2_700ms (best of 2)\n")
    assert (
        f"BLEU {first['BLEU']:.1f} at {first['LAAL']:.0f} ms, {first['LAAL_CA']:.0f} ms with computation, RTF 0.0"
        in low
    )
    test = compare_runs(sweep[0], sweep[1])
    margin = f"{first['BLEU'] - second['BLEU']:.1f} BLEU [{test['BLEU_low']:+.1f}, {test['BLEU_high']:+.1f}]"
    assert f"{margin} more than the next, LA-2_500ms: BLEU {second['BLEU']:.1f}" in low
    assert "the difference is no chance (p = 0.0" in low and "over 20 sentences" in low
    assert "the difference may be chance (p = 1.000" in high
    assert none == "LAAL above 4000, up to 9000 ms: no configuration lies there."
    alone = CliRunner().invoke(main, ["choose", str(tmp_path), "--regimes", "0-1200"]).stdout
    assert "LA-2_500ms (the only one there)" in alone and "next" not in alone
    assert "it can't keep up" not in said


def test_other_qualities(sweep: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    """By chrF the figures and the test are chrF's. COMET is compared where runs have it; the test wants segments."""
    [low] = choose(sweep, "LAAL", BOTH[:1], quality="chrF")
    test = compare_runs(sweep[0], sweep[1])
    assert low.p == test["chrF_p"] and low.interval == (test["chrF_low"], test["chrF_high"])
    assert f"{scores(sweep[1])['chrF'] - scores(sweep[0])['chrF']:.1f} chrF [" in report([low])
    with pytest.raises(SimulstError, match=r"no run has both COMET and LAAL.*; score the runs with --comet"):
        choose(sweep, "LAAL", BOTH, quality="COMET")
    for folder, comet in zip(sweep[:3], (0.75, 0.5, 0.8), strict=True):
        (folder / "scores.json").write_text(json.dumps({**scores(folder), "COMET": comet}))
    low, high = choose(sweep, "LAAL", BOTH, quality="COMET")
    assert [run.name for run in low.runs] == ["LA-2_500ms", "LA-2_700ms"]
    assert [run.name for run in high.runs] == ["LA-2_1000ms"] and "2000: has no COMET or no LAAL" in caplog.text
    said = report([low, high])
    assert "COMET 0.750 at" in said and "0.250 COMET more than the next" in said
    assert "no test of the difference: " in said and "has no scores of single segments" in said
    wrong = CliRunner().invoke(main, ["choose", str(sweep[0]), "--quality", "TER"])
    assert wrong.exit_code and "'TER' is no quality to compare runs by; choose from BLEU" in str(wrong.exception)


def test_slow_and_beaten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A configuration that is too slow is told or left out, and one that a lower regime beats is told."""
    runs = [make(tmp_path / "a", 500, 1000), make(tmp_path / "b", 1000, 3000, 0.3)]
    (runs[1] / "scores.json").write_text(
        json.dumps({**scores(runs[1]), "RTF": 1.25, "BLEU_low": 3.04, "BLEU_high": 70})
    )
    said = report(choose(runs, "LAAL", BOTH))
    assert "RTF 1.250\n" in said and "it can't keep up with speech" in said
    assert "LA-2_500ms, of a lower regime, has as much BLEU at a smaller lag" in said
    assert "[3.0, 70.0] at" in said
    cheap = choose(runs, "LAAL", BOTH, most_rtf=0.5)
    assert [len(choice.runs) for choice in cheap] == [1, 0] and "an RTF above 0.5" in caplog.text
    assert CliRunner().invoke(main, ["choose", str(runs[0]), "--most-rtf", "nan"]).exit_code == 2


def test_a_run_without_a_lag_is_left_out(sweep: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    (sweep[1] / "scores.json").write_text(json.dumps({**scores(sweep[1]), "LAAL": None}))
    assert [run.name for run in choose(sweep, "LAAL", BOTH)[0].runs] == ["LA-2_500ms"]
    assert "700: has no BLEU or no LAAL; left out." in caplog.text


def test_whole_recordings_need_their_sentences(sweep: list[Path]) -> None:
    for folder in sweep:
        (folder / "scores.json").write_text(json.dumps({**scores(folder), "recordings": 2, "LongYAAL": 1500.0}))
    [choice] = choose(sweep, "LongYAAL", BOTH[:1])
    assert len(choice.runs) == 4 and choice.p is None
    assert "no test of the difference: the runs are of whole recordings, so it needs --segm" in report([choice])


def change(folder: Path, **values: Any) -> None:
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), **values}))


def test_lags_that_streams_together_do_not_have(sweep: list[Path]) -> None:
    for run in sweep:
        (run / "scores.json").write_text(json.dumps({**scores(run), "LAAL_CA": None}))
    with pytest.raises(SimulstError, match=r"no run has both BLEU and LAAL_CA.*; decode without --streams"):
        choose(sweep, "LAAL_CA", BOTH)


def test_other_data(sweep: list[Path], tmp_path: Path) -> None:
    change(sweep[3], names="one")
    for key, value in (("names", "other"), ("task", {"target_language": "de"})):
        change(make(tmp_path / key, 4000, 3000), **{key: value})
        with pytest.raises(SimulstError, match=f"2000 and .*{key}: the runs are of different sentences or target"):
            choose([sweep[3], tmp_path / key], "LAAL", BOTH)
    with pytest.raises(SimulstError, match="no run has both BLEU and LAAL, apart from offline ones"):
        choose(sweep[-1:], "LAAL", BOTH)


def test_regimes() -> None:
    assert (
        parse_regime("0-2000") == Regime(0, 2000) and str(parse_regime("2000-4000.5")) == "above 2000, up to 4000.5 ms"
    )
    assert [Regime(0, 2000).holds(lag) for lag in (-5, 0, 2000, 2000.1)] == [True, True, True, False]
    assert [Regime(2000, 4000).holds(lag) for lag in (2000, 2000.1, 4000)] == [False, True, True]
    for wrong in ("2000", "2000-0", "5-5", "a-b", "0-", "-5-3", ""):
        with pytest.raises(SimulstError, match="is no regime; write the lowest and the highest lag"):
            parse_regime(wrong)
