"""`local/results.py write`: from finished runs to a section and its pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from contents import contents
from fake_runs import references, write_run
from recipe_copy import call, publish

from published.section import read_section
from simulst.errors import SimulstError
from simulst.runs.score import score_run


def test_a_section(root: Path) -> None:
    """The scores, the configuration, and where and when it was decoded, as the run's folder has them."""
    exp = root / "egs/mine/exp"
    config = exp / "runs/good/config.yaml"
    more = {"date": "2026-11-26", "commit": "abc", "processor": "a fast one", "weights": "w"}
    decoding = {"read": {"type": "boundary", "predictor": "/home/me/exp/predictor.pth", "frames": [1, 2]}}
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), **more, "decoding": decoding}))
    publish(root)
    section = read_section(root / "results/mine/en-de-tst.json")
    good = next(run for run in section.runs if run.name == "good")
    scores = json.loads((exp / "runs/good/scores.json").read_text())
    assert good.scores == {key: value for key, value in scores.items() if key not in ("log", "test_set")}
    assert {name: getattr(good, name) for name in more} == more
    assert good.configuration == {"read": {"type": "boundary", "predictor": "predictor.pth", "frames": [1, 2]}}
    assert [(one.id, one.verdict, one.a_runs, one.trainings) for one in section.findings] == [
        ("M1", "holds", ("good",), 1)
    ]
    assert (exp / "results/en-de-tst.json").read_bytes() == (root / "results/mine/en-de-tst.json").read_bytes()
    page = (root / "egs/mine/RESULTS.md").read_text()
    assert "| good " in page and "* **M1 holds**" in page and "./run.sh --recipe mine\n```" in page
    assert "Decoded on 2026-11-26, by commit abc, on a fast one." in page and "home" not in page
    assert "| good " in (exp / "RESULTS.md").read_text()
    assert "[mine en-de-tst](../egs/mine/RESULTS.md#en-de-tst)" in (root / "docs/papers.md").read_text()


def test_publishing_twice_changes_nothing(root: Path) -> None:
    publish(root)
    before = contents(root)
    config = root / "egs/mine/exp/runs/good/config.yaml"
    config.write_text(config.read_text() + "date: '2027-01-01'\n")
    publish(root)
    call("render", "--root", root)
    after = contents(root)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {"egs/mine/exp/runs/good/config.yaml"}


def test_without_publishing_only_the_experiments_change(root: Path) -> None:
    exp, before = root / "egs/mine/exp", contents(root)
    call("write", exp / "runs", "--recipe", "mine", "--section", "s", "--out", exp, "--command", "c")
    assert contents(root).keys() - before.keys() == {"egs/mine/exp/RESULTS.md", "egs/mine/exp/results/s.json"}
    assert before.items() <= contents(root).items()


def test_more_than_runs(root: Path) -> None:
    """A test of two runs, another table and a text."""
    exp = root / "egs/mine/exp"
    (exp / "counts.json").write_text('[{"head": ["Pair", "Lines"], "rows": [["en-de", 600]]}]')
    (exp / "choice.txt").write_text("LAAL 0 to 2000 ms: good\n")
    more = ("--table", exp / "counts.json", "--text", exp / "choice.txt")
    publish(root, *more, "--test", "bad", "good", "--test", "bad", "nowhere")
    page = (root / "egs/mine/RESULTS.md").read_text()
    for line in (
        "| en-de |   600 |",
        "```\nLAAL 0 to 2000 ms: good\n```",
        "`good` against `bad`: BLEU +",
        "40 sentences, p corrected for 2 tests",
    ):
        assert line in page


def test_runs_over_different_test_sets(root: Path) -> None:
    """A curve compares all its runs; a table compares those in one folder."""
    kinds = (("set", references(30, seed=1), "de"), ("language", references(), "fr"))
    for name, texts, language in kinds:
        score_run(write_run(root / name, "other", texts, language=language), language, bootstrap=0)
        with pytest.raises(SimulstError, match="different sentences or target languages"):
            publish(root, root / name, "--curve")
    publish(root, root / "set", root / "language", "--training", root / "egs/mine/exp/runs")
    assert len(read_section(root / "results/mine/en-de-tst.json").runs) == 4
    (root / "set/other").rename(root / "language/another")
    with pytest.raises(SimulstError, match="different sentences or target languages"):
        publish(root, root / "language")


def test_findings_on_several_trainings(root: Path) -> None:
    for name, wrong in (("good", 0.2), ("bad", 0.7)):
        score_run(write_run(root / "other/runs", name, references(), wrong, seed=2), "de", bootstrap=0)
    publish(root, "--training", root / "egs/mine/exp/run?", "--training", root / "other")
    [found] = read_section(root / "results/mine/en-de-tst.json").findings
    assert (found.trainings, len(found.each), found.verdict) == (2, 2, "holds")


def test_findings_alone(root: Path) -> None:
    exp = root / "egs/mine/exp"
    named = ("--recipe", "mine", "--section", "f", "--out", exp, "--command", "c")
    call("write", *named, "--findings", root / "conf/findings/mine.yaml", "--training", exp / "runs")
    section = read_section(exp / "results/f.json")
    assert not section.runs and section.findings
    with pytest.raises(SimulstError, match="say which runs are one training, by --training"):
        runs = (exp / "runs/good", exp / "runs/bad")
        call("write", *runs, *named, "--findings", root / "conf/findings/mine.yaml")


def test_the_curve(root: Path) -> None:
    pytest.importorskip("matplotlib")
    publish(root, "--curve", "--x", "LAAL")
    assert read_section(root / "results/mine/en-de-tst.json").curve == ("LAAL",)
    page = (root / "egs/mine/RESULTS.md").read_text()
    assert "![mine, en-de: quality over latency](../../results/mine/en-de-tst.svg)" in page
    assert "(results/en-de-tst.svg)" in (root / "egs/mine/exp/RESULTS.md").read_text()
    picture = root / "results/mine/en-de-tst.svg"
    drawn = picture.read_bytes()
    picture.unlink()
    call("render", "mine", "--root", root)
    assert picture.read_bytes() == drawn == (root / "egs/mine/exp/results/en-de-tst.svg").read_bytes()
