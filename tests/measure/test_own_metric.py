"""A metric of one's own is one file: TER by sacreBLEU, and scores of segments by a network from a checkpoint.

Whatever shows or uses scores knows them without the file: list, table, curve, choice, report, results.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fake_runs import references, write_run
from printed import printed as simulst
from sacrebleu.metrics import TER

from simulst.errors import SimulstError
from simulst.measure.metric import Metric, find_metrics
from simulst.results.choose import Regime, choose
from simulst.runs.score import score_run
from simulst.show.report.content import report_of

RESULTS = Path(__file__).parents[2] / "local/results.py"
EDITS = """
from sacrebleu.metrics import TER as Edits

from simulst.measure import Metric

TER = Metric("TER", "lower", unit="%", corpus=lambda language: Edits())
"""
NETWORK = """
from pathlib import Path

import torch

from simulst.measure import Metric, Texts


def judge(texts: Texts) -> list[float]:
    weights = torch.load(Path(__file__).with_name("metricx.pt"), weights_only=True)
    pairs = zip(texts.sources, texts.predictions, strict=True)
    lengths = torch.tensor([[len(source), len(prediction)] for source, prediction in pairs], dtype=torch.float32)
    return (25 * torch.sigmoid(lengths @ weights["w"] + weights["b"])).tolist()


MetricX = Metric("MetricX", "lower", digits=2, interval=False, segments=judge)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules with both metrics, and two scored runs with their transcript."""
    (tmp_path / "edits_of_mine.py").write_text(EDITS)
    (tmp_path / "network_of_mine.py").write_text(NETWORK)
    torch.save({"w": torch.tensor([0.01, -0.05]), "b": torch.tensor(0.5)}, tmp_path / "metricx.pt")
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("edits_of_mine", "network_of_mine"):  # of another test
        monkeypatch.delitem(sys.modules, module, raising=False)
    texts = references()
    for name, wrong, lag in (("good", 0.1, 1000.0), ("bad", 0.6, 1500.0)):
        score_run(write_run(tmp_path / "runs", name, texts, wrong, lag), "de", bootstrap=0)
    (tmp_path / "source.txt").write_text("".join(f"{text} {text}\n" for text in texts))
    return tmp_path


@pytest.mark.long
def test_a_file_each_and_all_know_them(own: Path) -> None:
    runs, picture, page = own / "runs", own / "ter.svg", own / "report.html"
    metrics = ("--metric", "edits_of_mine:TER", "--metric", "network_of_mine:MetricX", "--sources", own / "source.txt")
    simulst("runs", "score", runs, "--target-lang", "de", *metrics)
    said = simulst("score", runs / "good", "--target-lang", "de", "--against", runs / "bad", *metrics)
    scores = json.loads((runs / "good/scores.json").read_text())
    log = [json.loads(line) for line in (runs / "good/instances.log").read_text().splitlines()]
    theirs = TER().corpus_score([row["prediction"] for row in log], [[row["reference"] for row in log]]).score
    assert scores["TER"] == pytest.approx(theirs, abs=1e-3) and scores["TER_low"] < scores["TER"] < scores["TER_high"]
    assert 0 < scores["MetricX"] < 25 and scores["metrics"]["MetricX"]["path"] == "network_of_mine:MetricX"
    assert f"TER         {scores['TER']:10.2f} %  95 %: " in said and f"MetricX     {scores['MetricX']:10.3f}" in said
    assert re.search(r"^TER: -[\d.]+ against [\d.]+ \(95 %: .*, p = 0\.000", said, re.MULTILINE)
    assert re.search(r"^MetricX: [-+\d.]+ against", said, re.MULTILINE)

    (own / "edits_of_mine.py").rename(own / "moved.py")  # what shows scores needs no module
    head, _, *rows = simulst("table", runs).splitlines()
    names = [cell.strip() for cell in head.split("|")]
    assert names[5:10] == ["95 %", "TER", "95 %", "MetricX", "AL"]
    good = next([cell.strip() for cell in row.split("|")] for row in rows if "good" in row)
    assert good[6] == f"{scores['TER']:.1f}" and good[8] == f"{scores['MetricX']:.2f}"
    simulst("plot", runs, "--y", "TER", "--x", "LAAL", "--out", picture)
    assert "TER (%) (bars: 95 %)" in picture.read_text()
    simulst("report", runs, "--out", page)
    part = report_of([runs], 0)
    assert {axis.key: (axis.name, axis.kind) for axis in part.axes}["TER"] == ("TER (%)", "quality")
    assert "TER" in part.head and "MetricX" in part.head
    (own / "moved.py").rename(own / "edits_of_mine.py")
    said = simulst("choose", runs, "--quality", "TER", "--regimes", "0-4000")
    assert said.startswith("LAAL up to 4000 ms: good (best of 2)\n  TER ") and " TER [-" in said
    assert "less than the next, bad" in said and "the difference is no chance" in said
    assert "MetricX" in simulst("choose", runs, "--quality", "MetricX", "--sources", own / "source.txt")


@pytest.mark.long
def test_results_keep_what_a_metric_is(own: Path) -> None:
    simulst("runs", "score", own / "runs", "--target-lang", "de", "--metric", "edits_of_mine:TER")
    named = ("--recipe", "mine", "--section", "s", "--command", "c", "--out", own)
    subprocess.run([sys.executable, RESULTS, "write", own / "runs", *named], check=True, cwd=own)
    (own / "edits_of_mine.py").unlink()
    assert "|  TER |" in (own / "RESULTS.md").read_text()


def test_a_score_of_ones_own_stays_with_its_log(own: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As COMET does: it may take long."""
    run = own / "runs/good"
    simulst("runs", "score", run, "--target-lang", "de", "--metric", "edits_of_mine:TER")
    kept = json.loads((run / "scores.json").read_text())["TER"]
    assert score_run(run, "de", bootstrap=0)["TER"] == kept
    (own / "edits_of_mine.py").write_text(EDITS + "# changed\n")
    simulst("table", own / "runs")
    assert "edits_of_mine:TER has changed since it gave scores of TER" in caplog.text
    assert "TER" not in score_run(run, "de", bootstrap=0)
    simulst("runs", "score", run, "--target-lang", "de", "--metric", "edits_of_mine:TER")
    log = run / "instances.log"
    log.write_text(log.read_text().replace('"prediction": "', '"prediction": "x', 1))
    assert "TER" not in score_run(run, "de", bootstrap=0)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "M = Metric('TER', segments=len)",
            "TER does not say what is better; give better one of higher, lower, neither",
        ),
        ("M = Metric('TER', 'upwards', segments=len)", "says better='upwards'; give better one of higher"),
        ("M = Metric('TER', 'lower')", "not a metric that can be computed"),
        ("M = Metric('BLEU', 'lower', segments=len)", "there is another metric BLEU; give it another key"),
        ("M = 1", "not a metric that can be computed"),
        ("import nothing_there", "No module named 'nothing_there'"),
    ],
)
def test_what_is_no_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"broken{abs(hash(code))}"
    (tmp_path / f"{name}.py").write_text(f"from simulst.measure import Metric\n{code}\n")
    with pytest.raises(SimulstError, match=said):
        find_metrics([f"{name}:M"])


def test_scores_that_are_wrong(own: Path) -> None:
    """Too few, no numbers, or an error in the user's code end in one sentence; scores.json stays."""
    run = own / "runs/good"
    before = (run / "scores.json").read_text()
    for number, (code, said) in enumerate(
        (("[1.0]", "gives 1 scores of 40 sentences"), ("[float('nan')] * 40", "are no numbers"), ("1 / 0", "ZeroDivi"))
    ):
        (own / f"wrong{number}.py").write_text(
            f"from simulst.measure import Metric\nM = Metric('M', 'lower', segments=lambda texts: {code})\n"
        )
        with pytest.raises(SimulstError, match=f"wrong{number}:M: .*{said}"):
            simulst("score", run, "--target-lang", "de", "--metric", f"wrong{number}:M")
    assert (run / "scores.json").read_text() == before


def test_neither_is_better(own: Path) -> None:
    (own / "neutral.py").write_text(
        "from simulst.measure import Metric\n"
        "M = Metric('Words', 'neither', segments=lambda texts: [len(one.split()) for one in texts.predictions])\n"
    )
    simulst("runs", "score", own / "runs", "--target-lang", "de", "--metric", "neutral:M")
    assert "Words" in simulst("table", own / "runs")
    with pytest.raises(SimulstError, match="'Words' does not say whether higher or lower is better"):
        choose([own / "runs/good", own / "runs/bad"], "LAAL", [Regime(0, 4000)], "Words")


def test_all_metrics_say_what_is_better() -> None:
    with pytest.raises(SimulstError, match="no key"):
        Metric("a b", "lower")
