"""Tables of runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulst.config import parse_decoding
from simulst.errors import SimulstError
from simulst.results.runs import (
    Measures,
    PairCounts,
    PredictorScores,
    find_runs,
    load_runs,
    pairs_table,
    predictor_table,
    runs_table,
)
from simulst.show.curve import draw_curve

SCORES = {
    "BLEU": 24.26,
    "BLEU_low": 22.04,
    "BLEU_high": 26.06,
    "chrF": 48.3,
    "chrF_low": 45.67,
    "chrF_high": 51,
    "AL": 1234.567,
    "LAAL": 1300.0,
    "AP": 0.7512,
    "DAL": 1500.4,
    "AL_CA": 2000.0,
    "RTF": 0.1234,
    "length_ratio": 1.016,
}

TABLE = """
| Configuration       | BLEU |         95 % | chrF |         95 % |   AL | LAAL |   AP |  DAL | AL_CA |   RTF | Length |
| ------------------- | ---: | -----------: | ---: | -----------: | ---: | ---: | ---: | ---: | ----: | ----: | -----: |
| offline             | 25.0 | [22.0, 26.1] | 48.3 | [45.7, 51.0] | 1235 | 1300 | 0.75 | 1500 |  2000 | 0.123 |   1.02 |
| LA-2_500ms          | 24.3 |            – | 48.3 | [45.7, 51.0] |   -7 | 1300 | 0.75 | 1500 |     – |     – |   1.02 |
| LA-2_1000ms         | 24.3 | [22.0, 26.1] | 48.3 | [45.7, 51.0] | 1235 | 1300 | 0.75 | 1500 |  2000 | 0.123 |   1.02 |
| LA-2_500ms-wait2000 | 24.3 | [22.0, 26.1] | 48.3 | [45.7, 51.0] | 1235 | 1300 | 0.75 | 1500 |  2000 | 0.123 |   1.02 |
| hold-6_1000ms       | 24.3 | [22.0, 26.1] | 48.3 | [45.7, 51.0] | 1235 | 1300 | 0.75 | 1500 |  2000 | 0.123 |   1.02 |
| hold-10_1000ms      | 24.3 | [22.0, 26.1] | 48.3 | [45.7, 51.0] | 1235 | 1300 | 0.75 | 1500 |  2000 | 0.123 |   1.02 |
"""


def make_run(
    folder: Path, read: dict[str, Any], commit: dict[str, Any], stop: dict[str, Any] | None = None, **scores: Any
) -> Path:
    stop = stop or {"type": "end_of_sentence"}
    decoding = parse_decoding({"read": read, "stop": stop, "commit": commit}, "test")
    folder.mkdir(parents=True)
    curve = {"strategy": decoding.strategy, "curve": list(decoding.curve)}
    config = {"label": decoding.label, **curve, "decoding": decoding.raw}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "scores.json").write_text(json.dumps({**SCORES, **scores}))
    return folder


def chunk(folder: Path, ms: float, n: int = 2, wait: float = 0.0, kind: str = "local_agreement", **scores: Any) -> Path:
    read = {"type": "chunk", "ms": ms, **({"initial_wait_ms": wait} if wait else {})}
    return make_run(folder, read, {"type": kind, "n": n}, **scores)


def offline(folder: Path, **scores: Any) -> Path:
    return make_run(folder, {"type": "offline"}, {"type": "all"}, **scores)


def test_table(tmp_path: Path) -> None:
    folders = [
        chunk(tmp_path / "1", 1000, kind="hold", n=10),
        chunk(tmp_path / "2", 1000),
        chunk(tmp_path / "3", 500, AL=-7.4, AL_CA=None, RTF=None, BLEU_low=None, BLEU_high=None),
        chunk(tmp_path / "4", 500, wait=2000),
        chunk(tmp_path / "5", 1000, kind="hold", n=6),
        offline(tmp_path / "6", BLEU=25.0),
    ]
    assert runs_table(folders) == TABLE.strip()


def test_recognition_has_two_columns_more(tmp_path: Path) -> None:
    table = runs_table([offline(tmp_path / "1", WER=12.34, CER=5.67), chunk(tmp_path / "2", 500, WER=None, CER=None)])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert [[row[3], *row[5:7]] for row in rows[:1] + rows[2:]] == [
        ["chrF", "WER", "CER"],
        ["48.3", "12.3", "5.7"],
        ["48.3", "–", "–"],
    ]


def test_the_lags_of_paper_b_stand_beside_its_schedule(tmp_path: Path) -> None:
    """Its table has them for offline runs, too; tables without its READ do not have them."""
    lags = {"AL_original": 111.1, "AL_steps": 222.2}
    plain = [offline(tmp_path / "1", **lags), chunk(tmp_path / "2", 500, **lags)]
    assert "111" not in runs_table(plain) and "AL_steps" not in runs_table(plain)
    read, stop = {"type": "wait_stride", "k": 100, "s": 10}, {"type": "max_tokens", "n": 2}
    schedule = make_run(tmp_path / "3", read, {"type": "all"}, stop, **{**lags, "AL_steps": 333.3})
    rows = [[cell.strip() for cell in line.split("|")] for line in runs_table([plain[0], schedule]).splitlines()]
    place = rows[0].index("AL")
    assert [row[place : place + 3] for row in rows[:1] + rows[2:]] == [
        ["AL", "AL_original", "AL_steps"],
        ["1235", "111", "222"],
        ["1235", "111", "333"],
    ]


def test_tables_of_prefix_alignment() -> None:
    counts = {"all": PairCounts(pairs=40, kept=40), "maxratio20": PairCounts(pairs=40, filtered=31, kept=9)}
    assert pairs_table(counts).markdown().splitlines()[2:] == [
        "| all        |    40 |        0 |  0 |",
        "| maxratio20 |     9 |       31 | 78 |",
    ]
    row = Measures(accuracy=0.75, precision=1 / 3, recall=0.0, f1=1.0)
    table = predictor_table(PredictorScores(row, {"0.5": replace(row, f1=0.5)})).markdown().splitlines()
    assert table[2:] == [
        "| outputs, λ 0.5 |    0.750 |     0.333 |  0.000 | 1.000 |",
        "| pieces, λ 0.5  |    0.750 |     0.333 |  0.000 | 0.500 |",
    ]


def test_curves_that_are_called_after_their_read(tmp_path: Path) -> None:
    """Test-time wait-k over k, paper B's schedule over k, the boundary predictor over its threshold."""
    word, two = {"type": "max_words", "n": 1}, {"type": "max_tokens", "n": 2}
    reads: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
        *[({"type": "test_time_wait_k", "k": k}, word) for k in (11, 3)],
        *[({"type": "wait_stride", "k": k, "s": 10}, two) for k in (200, 100)],
        *[({"type": "boundary", "threshold": t, "predictor": "p.pth"}, None) for t in (0.5, 0.0)],
    ]
    folders = []
    for i, (read, stop) in enumerate(reads):
        words = {"boundary": {"last_word": True}, "test_time_wait_k": {"whole_words": True}}
        commit = {"type": "all", **words.get(read["type"], {})}
        folders.append(make_run(tmp_path / str(i), read, commit, stop))
    runs = load_runs(folders)
    assert [(run.curve, run.name, run.value) for run in runs] == [
        ("boundary-T100", "boundary-T100-0", 0.0),
        ("boundary-T100", "boundary-T100-0.5", 0.5),
        ("k-s10-N2", "k100-s10-N2", 100.0),
        ("k-s10-N2", "k200-s10-N2", 200.0),
        ("test-time-wait-k", "test-time-wait-3", 3.0),
        ("test-time-wait-k", "test-time-wait-11", 11.0),
    ]


def test_equal_labels_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    runs = load_runs([chunk(tmp_path / f"{pair}/LA-2_{ms}ms", ms) for pair in ("fr-en", "es-en") for ms in (2000, 500)])
    assert [run.name for run in runs] == [f"{p}/LA-2_{ms}ms" for p in ("es-en", "fr-en") for ms in (500, 2000)]
    assert [run.curve for run in runs] == ["es-en/LA-2"] * 2 + ["fr-en/LA-2"] * 2


def test_one_curve_has_one_model(tmp_path: Path) -> None:
    """Two models that were decoded with other chunks. A model for each k, in one folder, may be a curve."""
    for place, weights in (("a/500", "x"), ("a/700", "y"), ("b/1000", "z")):
        config = chunk(tmp_path / place, float(place[2:])) / "config.yaml"
        config.write_text(config.read_text() + f"weights: {weights}\n")
    assert {run.curve for run in load_runs(find_runs([tmp_path / "a"]))} == {"LA-2"}
    runs = load_runs(find_runs([tmp_path]))
    assert [(run.name, run.curve) for run in runs] == [(p, f"{p[0]}/LA-2") for p in ("a/500", "a/700", "b/1000")]


def test_runs_of_a_model_that_was_trained_again_are_not_mixed(tmp_path: Path) -> None:
    """--force decodes only what is in the present sweep again."""
    for number, (name, weights) in enumerate([("a", "old"), ("b", "new"), ("other/c", "old")]):
        folder = chunk(tmp_path / name, 500 + number)
        config = yaml.safe_load((folder / "config.yaml").read_text())
        config |= {"weights": weights, "task": {**(config.get("task") or {}), "model": "exp/st", "options": {}}}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
    assert len(find_runs([tmp_path / "a", tmp_path / "other"])) == 2
    with pytest.raises(SimulstError, match=r"a and .*b are runs of exp/st with different weights"):
        find_runs([tmp_path])


def test_find_runs(tmp_path: Path) -> None:
    above = offline(tmp_path / "sweeps")  # evaluated into a folder that holds a sweep
    first = chunk(tmp_path / "sweeps/es/a", 500)
    second = chunk(tmp_path / "sweeps/es/b", 1000)
    alone = offline(tmp_path / "alone")
    (tmp_path / "sweeps/es/unfinished").mkdir()
    (tmp_path / "sweeps/predictor").mkdir()
    for name in ("predictor.pth", "scores.json"):
        (tmp_path / "sweeps/predictor" / name).touch()
    assert find_runs([alone, tmp_path / "sweeps", str(first), first / ".." / "b"]) == [alone, above, first, second]
    with pytest.raises(SimulstError, match="nowhere: no such folder"):
        find_runs([alone, tmp_path / "nowhere"])
    with pytest.raises(SimulstError, match=r"no run in it has a scores\.json"):
        find_runs([tmp_path / "sweeps/es/unfinished"])


def test_bad_runs(tmp_path: Path) -> None:
    run = chunk(tmp_path / "run", 500)
    (run / "scores.json").write_text("{")
    with pytest.raises(SimulstError, match=r"scores\.json: not valid JSON"):
        runs_table([run])
    (run / "scores.json").write_text("[]")
    with pytest.raises(SimulstError, match="not the scores"):
        runs_table([run])
    (run / "scores.json").unlink()
    with pytest.raises(SimulstError, match=r"scores\.json: no such file"):
        runs_table([run])
    (run / "config.yaml").unlink()
    with pytest.raises(SimulstError, match=r"config\.yaml"):
        runs_table([run])
    with pytest.raises(SimulstError, match="no run"):
        runs_table([])


def test_a_curve_of_blockwise_runs_is_told_by_the_policys_number(tmp_path: Path) -> None:
    block = {"read": {"type": "block"}, "search": {"type": "ibwbs"}}
    policies: list[dict[str, Any]] = [
        {"commit": {"type": "hold", "n": 8}},
        {"commit": {"type": "hold", "n": 2}},
        {"stop": {"type": "ctc", "threshold": -0.5}, "commit": {"type": "all"}},
        {"stop": {"type": "ctc", "threshold": 2.0}, "commit": {"type": "all"}},
        {"commit": {"type": "all"}},
    ]
    folders = []
    for number, policy in enumerate(policies):
        decoding = parse_decoding({**block, **policy}, "test")
        folder = tmp_path / str(number)
        folder.mkdir()
        curve = {"strategy": decoding.strategy, "curve": list(decoding.curve)}
        config = {"label": decoding.label, **curve, "decoding": decoding.raw}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        (folder / "scores.json").write_text(json.dumps(SCORES))
        folders.append(folder)
    assert [(run.curve, run.value) for run in load_runs(folders)] == [
        ("all_CTC-n_IBWBS", -0.5),
        ("all_CTC-n_IBWBS", 2.0),
        ("all_IBWBS", None),
        ("hold-n_IBWBS", 2.0),
        ("hold-n_IBWBS", 8.0),
    ]


def test_runs_that_do_not_belong_together(tmp_path: Path) -> None:
    """Not over the same test set, or with scores of another log: tables and curves refuse them."""
    runs = [chunk(tmp_path / "a", 500, sentences=3), chunk(tmp_path / "b", 1000, sentences=3)]
    assert runs_table(runs)
    different = r"a and .*b: the runs are of different sentences or target languages; give runs over the same data"
    for scores in ({"sentences": 4}, {"sentences": 3, "test_set": "2"}):
        for folder, more in zip(runs, ({"sentences": 3, "test_set": "1"}, scores), strict=True):
            (folder / "scores.json").write_text(json.dumps({**SCORES, **more}))
        with pytest.raises(SimulstError, match=different):
            runs_table(runs)
        with pytest.raises(SimulstError, match=different):
            draw_curve(runs, tmp_path / "x.svg")
    (runs[0] / "instances.log").write_text("{}")
    assert load_runs(runs), "scores of older versions do not name their log"
    (runs[0] / "scores.json").write_text(json.dumps({**SCORES, "log": "0123456789abcdef"}))
    with pytest.raises(SimulstError, match=r"a: its scores\.json is of another instances\.log; score it again"):
        load_runs(runs)


def test_runs_that_are_too_slow_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runs = [chunk(tmp_path / "a", 500), chunk(tmp_path / "b", 1000, RTF=1.25, LAAL_CA=1700)]
    assert "| LAAL_CA |" in runs_table(runs)
    assert "1 of 2 runs can't keep up with speech" in caplog.text and "first LA-2_1000ms, 1.25" in caplog.text
