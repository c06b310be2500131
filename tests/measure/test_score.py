"""Scores of logs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from simuleval.evaluator.instance import LogInstance
from simuleval.evaluator.scorers.latency_scorer import ALScorer, APScorer, DALScorer, LAALScorer

from simulst.log.instance import Instance
from simulst.measure import compare, score
from simulst.show.table import format_scores

TEXTS = ["the cat sees the big dog", "it was a small house under the tree", "the dog runs quickly and it sees a cat"]


def log(texts: list[str], references: list[str] = TEXTS, compute: float | None = 200.0) -> list[Instance]:
    """One word a second, on sources as long as their predictions; `compute` ms late."""
    instances = []
    for index, (text, reference) in enumerate(zip(texts, references, strict=True)):
        delays = [1000.0 * (i + 1) for i in range(len(text.split()))]
        elapsed = [] if compute is None else [d + compute for d in delays]
        instances.append(
            Instance(index, text, delays, elapsed, len(delays), reference, ["a.wav"], max(1000.0, 1000.0 * len(delays)))
        )
    return instances


def test_scores_of_a_perfect_log() -> None:
    scores = score(log(TEXTS))
    assert scores["BLEU"] == pytest.approx(100) and scores["chrF"] == pytest.approx(100)
    # A word a second on an ideal step of a second: each word lags 1000 ms, 1200 with the computation.
    for name in ("AL", "AL_original", "LAAL", "DAL"):
        assert scores[name] == 1000.0
        # The words at the very end: the computation-aware mean may stop a word earlier, at the same lag.
        assert scores[f"{name}_CA"] == 1200.0
    assert scores["AL_steps"] is None  # the log does not count tokens
    # 600 ms of computation for 6 + 8 + 9 seconds.
    assert scores["RTF"] == round(600 / 23000, 4)
    assert (scores["sentences"], scores["empty"], scores["length_ratio"], scores["unit"]) == (3, 0, 1.0, "word")
    assert json.loads(json.dumps(scores, allow_nan=False)) == scores


def test_recognition_has_error_rates() -> None:
    texts = ["The cat sees a big dog.", TEXTS[1], TEXTS[2]]
    scores = score(log(texts), "en", source_language="en-GB")
    assert scores["WER"] == round(100 / 23, 3) and 0 < scores["CER"] < scores["WER"]
    assert f"WER{scores['WER']:>19.2f} %" in format_scores(scores)
    assert "WER" not in score(log(texts), "en", source_language="de")
    unknown = score([replace(i, reference=None) for i in log(texts)], "en", source_language="en")
    assert unknown["WER"] is unknown["CER"] is None and "WER                  - %" in format_scores(unknown)


def test_empty_predictions_are_counted() -> None:
    scores = score(log([TEXTS[0], "", TEXTS[2]]))
    assert (scores["sentences"], scores["empty"]) == (3, 1)
    assert scores["AL"] == 1000.0
    assert scores["length_ratio"] == round(15 / 23, 3)


def test_all_empty_is_none_not_nan() -> None:
    scores = score(log(["", "", ""]), bootstrap=10)
    assert scores["empty"] == 3
    assert scores["BLEU"] == scores["BLEU_low"] == scores["BLEU_high"] == 0
    assert scores["AL"] is scores["DAL_CA"] is scores["RTF"] is None
    json.dumps(scores, allow_nan=False)
    assert "-" in format_scores(scores)


def test_no_elapsed_times() -> None:
    scores = score(log(TEXTS, compute=None))
    assert scores["AL"] == 1000.0
    assert scores["AL_CA"] is scores["AP_CA"] is scores["RTF"] is None


@pytest.mark.parametrize("reference", [None, "", " "])
def test_no_references(reference: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """Without references, lags use the lengths of the predictions, as SimulEval's scorers do with null."""
    instances = [replace(instance, reference=reference) for instance in log(TEXTS)]
    scores = score(instances, bootstrap=10, path="x.log")
    assert scores["BLEU"] is scores["BLEU_low"] is scores["chrF_signature"] is scores["length_ratio"] is None
    assert scores["AL"] == scores["LAAL"] == scores["AL_original"] == 1000.0
    logs = {i.index: LogInstance(replace(i, reference=None).to_json(), "word") for i in instances}
    for name, scorer in (("AL", ALScorer), ("LAAL", LAALScorer), ("AP", APScorer), ("DAL", DALScorer)):
        assert scores[name] == pytest.approx(scorer(False, True)(logs), abs=1e-3)
    assert "x.log: has no references" in caplog.text
    format_scores(scores)


def test_one_sentence_has_no_interval(caplog: pytest.LogCaptureFixture) -> None:
    scores = score(log(TEXTS)[:1], bootstrap=1000)
    assert scores["BLEU"] == pytest.approx(100) and scores["BLEU_low"] is scores["BLEU_high"] is None
    assert "one sentence has no 95 % interval" in caplog.text
    assert "95 %" not in format_scores(scores)


def test_characters() -> None:
    instance = Instance(0, "我去学校", [1000, 2000, 3000, 4000], [], 4, "我去 学校", ["a.wav"], 4000)
    scores = score([instance], language="zh")
    assert scores["unit"] == "char"
    assert scores["length_ratio"] == 1.0
    # SimulEval counts the inner space of the reference: |Y*| = 5, ideal step 800, lags 1000, 1200, 1400, 1600.
    assert scores["AL"] == 1300.0
    assert "tok:zh" in scores["BLEU_signature"]


def test_compare_pairs_by_index() -> None:
    texts = ["a cat", "it was", "the dog runs"]
    references, good, bad = TEXTS * 8, TEXTS * 8, texts * 8
    result = compare(log(bad, references), list(reversed(log(good, references))), samples=200)
    assert result["BLEU_system"] == pytest.approx(100)
    assert result["BLEU_difference"] == pytest.approx(result["BLEU_system"] - result["BLEU_baseline"])
    assert 0 < result["BLEU_low"] <= result["BLEU_difference"] <= result["BLEU_high"]
    assert result["BLEU_p"] < 0.05 and result["chrF_p"] < 0.05
    assert result["sentences"] == 24
    json.dumps(result, allow_nan=False)
    assert compare(log(bad, references), log(bad, references), samples=50)["BLEU_p"] == 1.0


def test_table_shows_everything() -> None:
    scores = score(log(TEXTS), bootstrap=10)
    table = format_scores(scores)
    for piece in ("BLEU", "95 %", "chrF", "AL_steps", "1200.0", "RTF", "3 sentences, 0 with an empty", "tok:13a"):
        assert piece in table
    assert max(len(line) for line in table.splitlines()) < 120
    assert "against" not in table
    scores["against"] = compare(log([TEXTS[0], "another", TEXTS[2]], TEXTS), log(TEXTS), samples=20)
    table = format_scores(scores)
    assert f"BLEU: {scores['BLEU'] - scores['against']['BLEU_baseline']:+.2f} against" in table
    assert f"(95 %: {scores['against']['BLEU_low']:+.2f} to " in table


def test_sacrebleu_is_imported_only_when_scoring() -> None:
    code = "import sys, simulst.measure.score; sys.exit('sacrebleu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
