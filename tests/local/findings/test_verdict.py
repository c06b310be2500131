"""Tests of findings: the statistic by brute force, the correction by hand, verdicts by their properties."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
from fake_runs import references, write_run
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from findings import Finding, decide
from findings.figures import Figures, Run, figures_of, find_training
from findings.verdict import _wild, measure, one_sided
from simulst.errors import SimulstError
from simulst.log import read_log
from simulst.measure.latency import corpus_latency

BETTER = Finding("X1", "1", "a is better than b", "quality", ("a",), ("b",), "more")


def figures(bleu: np.ndarray, lag: float | np.ndarray = 1000.0) -> Figures:
    ones = np.ones_like(bleu)
    return Figures(bleu, {"LAAL": lag * ones}, rtf=ones, length=ones, sentences=9)


def test_figures_of_the_whole_set_are_the_scores(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "a", references(), rtf=0.25)
    [found] = figures_of(find_training(tmp_path), ["AL", "LAAL_CA"], 3)
    log = read_log(folder)
    scores = corpus_latency(log, "word")
    assert found.bleu[0] == pytest.approx(BLEU().corpus_score([i.prediction for i in log], [references()]).score)
    assert found.lags["AL"][0] == pytest.approx(scores["AL"]) and found.rtf[0] == pytest.approx(0.25)
    assert found.lags["LAAL_CA"][0] == pytest.approx(scores["LAAL_CA"]) and found.length[0] == 1.0
    assert found.bleu.shape == (4,) and len(set(found.bleu)) == 4


def test_resamples_against_all_that_there_are(tmp_path: Path) -> None:
    """Of three sentences there are 27 resamples; their exact shares and mean, by sacreBLEU, against the drawn ones."""
    texts = ["a b c d e f", "b c d e f g h", "c d e f g h i j"]
    other = ["a b c d e x", "b c d y f g h", "c d e f g h i j"]
    write_run(tmp_path, "a", texts, prediction=texts[0], delays=[9.0] * 6, elapsed=[], prediction_length=6)
    write_run(tmp_path, "b", texts, prediction=other[1], delays=[9.0] * 7, elapsed=[], prediction_length=7)
    exact = []
    for drawn in itertools.product(range(3), repeat=3):
        scores = [BLEU().corpus_score([text] * 3, [[texts[i] for i in drawn]]).score for text in (texts[0], other[1])]
        exact.append(scores[0] - scores[1])
    a, b = figures_of(find_training(tmp_path), ["LAAL"], 20_000)
    found = (a.bleu - b.bleu)[1:]
    margin = float(np.median(exact)) + 1e-6
    assert found.mean() == pytest.approx(np.mean(exact), abs=0.5)
    speaks_for, _ = one_sided(found, "more", margin)
    assert speaks_for == pytest.approx(np.mean([d <= margin for d in exact]), abs=0.015)


def test_shares_by_hand() -> None:
    values = np.array([-1.0, 0.0, 1.0, 2.0, np.nan])
    assert one_sided(values, "more", 0) == (4 / 6, 5 / 6)
    assert one_sided(values, "less", 0) == (5 / 6, 4 / 6)
    assert one_sided(values, "same", 1.5) == (3 / 6, 5 / 6)
    assert one_sided(values, "more", 0, bound=1) == (4 / 6, 1.0)
    assert one_sided(values, "more", 0, bound=-1) == (1.0, 5 / 6)
    assert one_sided(values, "same", 1.5, bound=0) == (1.0, 1.0)


values = st.integers(0, 2**32 - 1).map(lambda seed: 100 * np.random.default_rng(seed).random(20))


@given(values, values, st.sampled_from(["quality", "quality_at_lag"]), st.floats(-5, 5))
@settings(max_examples=25)
def test_exchanging_the_sides_exchanges_the_direction(x: np.ndarray, y: np.ndarray, kind: str, margin: float) -> None:
    there = measure(replace(BETTER, kind=kind, margin=margin), [([figures(x)], [figures(y)])])
    back = measure(replace(BETTER, kind=kind, margin=-margin, direction="less"), [([figures(y)], [figures(x)])])
    assert there and back and (there.p_holds, there.p_fails) == (back.p_holds, back.p_fails)
    assert there.low == pytest.approx(-back.high) and there.low <= there.high


@given(values, values)
@settings(max_examples=25)
def test_slower_and_better_is_no_proof(x: np.ndarray, y: np.ndarray) -> None:
    """Without a common lag, only the faster side can be told to be better."""
    assume(abs(x[0] - y[0]) > 1e-6)
    slow, fast = figures(x, 2000.0), figures(y, 1000.0)
    found = measure(replace(BETTER, kind="quality_at_lag"), [([slow], [fast])])
    assert found and found.bound == -1 and found.p_holds == 1
    assert found.levels == (2000.0, 2000.0) and found.difference == pytest.approx(x[0] - y[0])
    dear = measure(replace(BETTER, kind="cost_at_lag"), [([slow], [fast])])
    assert dear and dear.p == 1
    sooner = measure(replace(BETTER, kind="lag_at_quality"), [([slow], [fast])])
    assert sooner and sooner.difference == 1000
    # The slow side lags more at equal BLEU if it is worse; if it is better, nothing is known.
    assert (sooner.p_holds < 1) == (x[0] < y[0])


@given(st.lists(st.tuples(values, values), min_size=1, max_size=4), st.sampled_from(["more", "less"]))
@settings(max_examples=25)
def test_what_is_concluded_is_true_of_each_training(pairs: list[tuple[np.ndarray, np.ndarray]], direction: str) -> None:
    finding = replace(BETTER, direction=direction)
    alone = [measure(finding, [([figures(x)], [figures(y)])]) for x, y in pairs]
    found = measure(finding, [([figures(x)], [figures(y)]) for x, y in pairs])
    assert found and all(alone)
    assert found.p_holds == max(one.p_holds for one in alone if one)
    assert found.p_fails == max(one.p_fails for one in alone if one)
    assert found.each == tuple(one.difference for one in alone if one)
    assert found.difference == pytest.approx(np.mean(found.each))


def test_seeds_that_disagree_decide_nothing() -> None:
    rng = np.random.default_rng(0)
    better, worse = (figures(middle + rng.normal(0, 0.1, 1000)) for middle in (60.0, 50.0))
    agree = measure(BETTER, [([better], [worse])] * 2)
    disagree = measure(BETTER, [([better], [worse]), ([worse], [better])])
    assert agree and agree.p < 0.01 and disagree and disagree.p == 1
    same = replace(BETTER, direction="same", margin=5.0)
    assert measure(same, [([better], [worse]), ([worse], [worse])]).p == 1  # type: ignore[union-attr]


def test_verdicts(tmp_path: Path) -> None:
    texts = references()
    for seed in ("1", "2"):
        runs = {"good_1": (0.1, 900), "good_2": (0.05, 2000), "bad_1": (0.6, 1000), "bad_2": (0.5, 1800)}
        for label, (wrong, lag) in runs.items():
            write_run(tmp_path / seed, label, texts, wrong, lag, seed=int(seed), weights=seed)
    good, bad = ("good_*",), ("bad_*",)
    findings = [
        Finding("1", "1", "holds", "quality_at_lag", good, bad, "more", 5.0),
        Finding("2", "1", "fails", "quality_at_lag", good, bad, "less"),
        Finding("3", "1", "no difference", "cost", ("good_1",), ("bad_1",), "more"),
        Finding("4", "1", "seeds", "quality", good, bad, "more", needs_seeds=True),
        Finding("5", "1", "missing", "quality", ("great",), bad, "more", command="make great"),
        Finding("6", "1", "Japanese", "quality", good, bad, "more", languages=("ja",)),
        Finding("7", "1", "unequal", "quality", ("good_1",), bad, "more"),
        Finding("8", "1", "a tenth", "lag_at_quality", good, bad, "less", lag="AL_CA"),
    ]
    one = decide(findings, [tmp_path / "1"], 500)
    assert [outcome.verdict for outcome in one] == [
        *("holds", "does not hold", "not decided", "not decided", "runs missing", "for other languages"),
        *("not decided", "holds"),
    ]
    assert "one training" in one[3].reason and one[3].measured and one[3].p is None and one[4].missing == ("great",)
    assert one[6].reason.startswith("1 runs stand against 2")
    # 2 / 501 for each of two findings that hold and one that fails, and 1 for the third; corrected for 4 tests.
    assert one[0].p == pytest.approx(4 * 2 / 501) and one[2].p == 1
    both = decide(findings, [tmp_path / "1", tmp_path / "2"], 500)
    assert both[3].verdict == "holds" and both[3].trainings == 2 and not both[3].reason
    half = replace(findings[0], a=("good_*", "great"))
    assert decide([half], [tmp_path / "1"], 100)[0].missing == ("great",)
    one_run = replace(findings[0], kind="lag_range", a=("good_1",))
    assert decide([one_run], [tmp_path / "1"], 100)[0].reason == "a range takes two runs of each side"
    write_run(tmp_path / "2", "good_3", texts, weights="2")
    assert "different runs (good_3)" in decide(findings, [tmp_path / "1", tmp_path / "2"], 100)[0].reason


def test_means_are_over_the_same_kinds_of_runs(tmp_path: Path) -> None:
    """An interrupted sweep may leave as many runs on both sides, but other ones."""
    texts = references(9)
    for model, ks in (("char", "12"), ("bpe", "23"), ("word", "12")):
        for k in ks:
            write_run(tmp_path / model, f"k{k}-s1", texts, wrong=0.1 if model == "char" else 0.9)
    against = {other: replace(BETTER, a=("char/k*-s[12]",), b=(f"{other}/k?-s1",)) for other in ("bpe", "word")}
    [mixed] = decide([replace(against["bpe"], a=("char/k*-s1",))], [tmp_path], 100)
    assert "not of the same kinds (k1-s1, k2-s1 against k2-s1, k3-s1)" in mixed.reason
    assert "not of the same kinds" in decide([against["word"]], [tmp_path], 100)[0].reason
    [like] = decide([replace(against["word"], a=("char/k*-s1",))], [tmp_path], 1000)
    assert like.verdict == "holds"
    named = replace(BETTER, a=("char/k1-s1", "char/k2-s1"), b=("bpe/k2-s1", "bpe/k3-s1"))
    assert decide([named], [tmp_path], 1000)[0].verdict == "holds"
    one_each = replace(BETTER, a=("char/k1*",), b=("bpe/k3-s[!2]",))
    assert decide([one_each], [tmp_path], 1000)[0].verdict == "holds"


@given(st.text("ab*?[]!-/", max_size=9), st.text("ab-/", max_size=6))
@settings(max_examples=300)
def test_wildcards_are_those_of_the_shell(pattern: str, name: str) -> None:
    """A label is matched by what follows the last slash; its folders, from some folder on, by what stands before."""
    above, _, label = name.rpartition("/")
    run = Run(Path(), f"/exp/{above}/{label}", label)
    folders, slash, last = pattern.rpartition("/")
    expected = fnmatchcase(label, last) and (not slash or fnmatchcase(f"/exp/{above}", f"*/{folders}"))
    assert (_wild(run, pattern) is not None) == expected


def test_means_are_over_as_many_runs_of_each_kind(tmp_path: Path) -> None:
    for label in ("LA-2_500", "LA-2_1000", "hold-2_1000", "LA-3_500", "hold-3_500", "hold-3_1000"):
        write_run(tmp_path, label, references(9))
    [found] = decide([replace(BETTER, a=("LA-2_*", "hold-2_*"), b=("LA-3_*", "hold-3_*"))], [tmp_path], 99)
    assert found.reason.startswith("the runs are not of the same kinds")


def test_each_training_needs_the_runs(tmp_path: Path) -> None:
    for seed, labels in (("1", ("a", "b")), ("2", ("a",))):
        for label in labels:
            write_run(tmp_path / seed, label, references(9), wrong=0.1 if label == "a" else 0.9, weights=seed)
    [found] = decide([replace(BETTER, a=("a",), b=("b",))], [tmp_path / "1", tmp_path / "2"], 100)
    assert found.verdict == "not decided" and found.reason == "runs are missing in 1 of 2 trainings: `b`"


def test_other_audio_is_another_test_set(tmp_path: Path) -> None:
    write_run(tmp_path, "a", references(3), audio="1")
    write_run(tmp_path, "b", references(3))
    assert decide([replace(BETTER, a=("a",), b=("b",))], [tmp_path], 10)
    write_run(tmp_path, "c", references(3), audio="2")
    with pytest.raises(SimulstError, match=r"different test sets \(the audio of index 0 differs"):
        decide([replace(BETTER, a=("a",), b=("c",))], [tmp_path], 10)


def test_whole_recordings_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for label in "ab":
        write_run(tmp_path, label, references(3), source_length=800_000.0)
    decide([replace(BETTER, a=("a",), b=("b",))], [tmp_path], 10)
    assert caplog.text.count("the entries seem to be whole recordings") == 2


def test_no_common_lag_below_the_limit_is_told(tmp_path: Path) -> None:
    write_run(tmp_path, "a", references(9), lag=1500)
    write_run(tmp_path, "b", references(9), lag=1200)
    limited = replace(BETTER, kind="quality_at_lag", up_to=100.0)
    assert decide([limited], [tmp_path], 100)[0].reason == "the two sides have no common lag up to 100 ms"


def test_models_in_folders_and_other_languages(tmp_path: Path) -> None:
    """As `exp` of a recipe with several models, pairs and styles; scores of other things are left alone."""
    texts = references(9)
    for style in ("read", "talk"):
        for model, wrong in (("char", 0.1), ("bpe", 0.9)):
            for pair, language in (("en-de", "de"), ("en-ja", "ja")):
                write_run(tmp_path / f"{style}/b-{model}/{pair}/tst", "k1", texts, wrong, language=language)
    exp = tmp_path / "read"
    (exp / "predictor").mkdir()
    (exp / "predictor/scores.json").write_text("{}")
    finding = replace(BETTER, a=("b-char/*/k1",), b=("b-bpe/*/k1",))
    german = replace(finding, languages=("de",))
    for one, folder in ((german, exp), (german, exp / "."), (finding, exp / "b-*/en-de")):
        assert decide([one], [folder], 1000)[0].verdict == "holds"
    below = decide([replace(german, b=("k1",))], [exp / "b-char/en-de"], 100)[0]
    assert below.measured and below.measured.difference == 0
    for one, folder in ((finding, exp), (german, tmp_path)):
        with pytest.raises(SimulstError, match="both called k1"):
            decide([one], [folder], 100)
    with pytest.raises(SimulstError, match=r"c-\*: no such folder"):
        decide([finding], [exp / "c-*"], 100)


def test_bad_runs_end_in_a_sentence(tmp_path: Path) -> None:
    texts = references(6)
    write_run(tmp_path / "one", "a", texts, weights="w")
    others = {
        "fewer": (texts[:5], {}, r"different test sets \(one has 6 sentences, the other 5"),
        "edited": ([*texts[:5], "etwas anderes"], {}, "different test sets .the references of index 5 differ"),
        "language": (texts, {"language": "fr"}, "different test sets .other target languages"),
        "mute": (texts, {"reference": None}, "has no references"),
        "unit": (texts, {"delays": [1.0], "elapsed": []}, "delays"),
    }
    for name, (lines, options, message) in others.items():
        write_run(tmp_path / name / "x", "a", texts)
        write_run(tmp_path / name / "x", "b", lines, **options)  # type: ignore[arg-type]
        with pytest.raises(SimulstError, match=message):
            decide([BETTER], [tmp_path / name], 100)
    write_run(tmp_path / "single", "a", texts[:1])
    write_run(tmp_path / "single", "b", texts[:1])
    [single] = decide([BETTER], [tmp_path / "single"], 100)
    assert single.verdict == "not decided" and "one sentence" in single.reason
    write_run(tmp_path / "twice/tst-1", "a", texts)
    write_run(tmp_path / "twice/tst-2", "a", texts)
    with pytest.raises(SimulstError, match="both called a; give --runs folders of one test set and language pair"):
        decide([BETTER], [tmp_path / "twice"], 100)
    assert decide([replace(BETTER, a=("tst-1/a",), b=("tst-2/a",))], [tmp_path / "twice"], 100)[0].measured
    write_run(tmp_path / "one", "b", texts, weights="w")
    for inside in ("one", "one/../one"):
        with pytest.raises(SimulstError, match="one/a: is in two of the trainings; give each --runs other runs"):
            decide([BETTER], [tmp_path / "one", tmp_path / inside], 100)
    write_run(tmp_path / "deep/exp/tst", "a", texts, weights="w")
    write_run(tmp_path / "deep/exp/tst", "b", texts, weights="w")
    with pytest.raises(SimulstError, match="deep/exp/tst/a: is in two of the trainings"):
        decide([BETTER], [tmp_path / "deep", tmp_path / "deep/exp"], 100)
    shutil.copytree(tmp_path / "deep", tmp_path / "copied")
    with pytest.raises(SimulstError, match="same weights; give runs of trainings with other seeds"):
        decide([BETTER], [tmp_path / "deep", tmp_path / "copied"], 100)


def test_a_run_that_wrote_nothing_is_told(tmp_path: Path) -> None:
    write_run(tmp_path, "a", references(5), prediction="", delays=[], elapsed=[], prediction_length=0)
    write_run(tmp_path, "b", references(5))
    kinds = [replace(BETTER, kind=kind) for kind in ("lag", "quality_at_lag", "cost_at_lag", "lag_at_quality")]
    for finding in (*kinds, replace(BETTER, kind="quality_at_lag", up_to=100.0)):
        assert "wrote nothing" in decide([finding], [tmp_path], 100)[0].reason, finding
    assert decide([BETTER], [tmp_path], 1000)[0].verdict == "does not hold"


def test_why_a_figure_is_missing(tmp_path: Path) -> None:
    said = {"prediction": "a b", "delays": [9.0, 9.0], "prediction_length": 2, "source_length": 800.0}
    for label in "ab":
        write_run(tmp_path, label, [""] * 5, elapsed=[], compute_ms=None, **said)
    reasons = {
        "the references are empty": replace(BETTER, kind="length"),
        "a run wrote nothing, or its log has no computation times": replace(BETTER, kind="cost_at_lag", up_to=3000.0),
        "the two sides have no common lag up to -5000 ms": replace(BETTER, kind="quality_at_lag", up_to=-5000.0),
    }
    for reason, finding in reasons.items():
        assert decide([finding], [tmp_path], 100)[0].reason == reason
