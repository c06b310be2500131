"""Our SimulEval agent: SimulEval's own evaluator must report what our own runs report."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
from fake import FakeModel

import simulst
from simulst.audio.read import load_audio
from simulst.background import Background
from simulst.config import load_decoding
from simulst.data.datadir import Utterance
from simulst.data.simuleval_files import export_for_simuleval
from simulst.errors import SimulstError
from simulst.log import read_log
from simulst.log.instance import Instance
from simulst.measure import score
from simulst.runs.decode import decode_utterance

cli = pytest.importorskip("simuleval.cli")
from simuleval.utils import EVALUATION_SYSTEM_LIST  # noqa: E402

AGENT = Path(simulst.__file__).parent / "serve" / "simuleval.py"
SAMPLES = (84807, 32000, 48001, 9000, 16000)  # with and without a rest; less than a chunk; chunks exactly
LA2 = "read: {type: chunk, ms: 1000}\ncommit: {type: local_agreement, n: 2}\n"
WAIT_K = "read: {type: test_time_wait_k, k: 3}\ncommit: {type: all, whole_words: true}\nstop: {type: max_words, n: 1}\n"
ENGLISH = ("the cat sat on", "unbelievable, cats sat", "the cat  sat.", "on the café", "the cats")
CHINESE = ("你好吗 世界", "你好", "世界 你好吗 a", "吗世", "好吗")

SimulEval = Callable[..., Path]


@pytest.fixture
def simuleval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulEval:
    """Runs the `simuleval` command in this process with a fake model; gives the output folder."""

    def run(*options: str, source: Path = tmp_path / "files/source.txt", target_lang: str = "en") -> Path:
        out = tmp_path / "out"
        fixed = {
            "--model": "fake:FakeModel",
            "--source-lang": "es",
            "--target-lang": target_lang,
            "--decoding": tmp_path / "conf.yaml",
            "--source": source,
            "--target": tmp_path / "files/target.txt",
            "--output": out,
        }
        arguments = [str(word) for pair in fixed.items() for word in pair]
        if "--agent-class" not in options:
            arguments += ["--agent", str(AGENT)]
        if "--source-segment-size" not in options:
            arguments += ["--source-segment-size", "100"]
        monkeypatch.setattr(sys, "argv", ["simuleval", "--no-progress-bar", *arguments, *options])
        EVALUATION_SYSTEM_LIST.clear()
        cli.main()
        return out

    (tmp_path / "conf.yaml").write_text(LA2)
    return run


def make(
    folder: Path, texts: tuple[str, ...] = ENGLISH, rate: int = 16000, samples: tuple[int, ...] = SAMPLES
) -> list[Utterance]:
    """Utterances of noise, as float WAVs, and their export in folder/files."""
    noise = np.random.default_rng(0)
    utterances = []
    for i, (text, size) in enumerate(zip(texts, samples, strict=False)):
        path = folder / f"{i}.wav"
        soundfile.write(path, noise.uniform(-0.5, 0.5, size).astype(np.float32), rate, subtype="FLOAT")
        utterances.append(Utterance(f"u{i}", path, text))
    export_for_simuleval(utterances, folder / "files")
    return utterances


def ours(
    utterances: list[Utterance], conf: Path, unit: str = "word", language: str = "en", **options: Any
) -> list[Instance]:
    decoding = load_decoding(conf)
    model = FakeModel(**options)
    return [decode_utterance(model, ("es", language), u, i, [decoding], unit)[0] for i, u in enumerate(utterances)]


def scores_tsv(out: Path) -> dict[str, float]:
    with (out / "scores.tsv").open() as file:
        [row] = csv.DictReader(file, delimiter="\t")
    return {name: float(value) for name, value in row.items()}


@pytest.mark.parametrize(
    ("conf", "segment", "options"),
    [
        (LA2, 100, {}),
        (LA2, 250, {"token_ms": 130}),
        (LA2, 1000, {"unstable": 0}),
        ("read: {type: chunk, ms: 300, initial_wait_ms: 1500}\ncommit: {type: hold, n: 3}\n", 20, {"seed": 3}),
        ("read: {type: chunk, ms: 500}\ncommit: {type: shared_prefix, n: 1}\nstop: {type: max_tokens, n: 2}\n", 50, {}),
        ("read: {type: chunk, ms: 400}\ncommit: {type: local_agreement, n: 2}\n", 200, {"window": 8}),
        (
            WAIT_K,
            40,
            {"unstable": 0},
        ),
        ("read: {type: wait_stride, k: 60, s: 20}\ncommit: {type: all}\nstop: {type: max_tokens, n: 2}\n", 100, {}),
        ("read: {type: offline}\ncommit: {type: all}\n", 700, {}),
    ],
)
def test_same_as_our_run(
    simuleval: SimulEval, tmp_path: Path, conf: str, segment: int, options: dict[str, int]
) -> None:
    utterances = make(tmp_path)
    (tmp_path / "conf.yaml").write_text(conf)
    pairs = [word for name, value in options.items() for word in ("--model-option", f"{name}={value}")]
    out = simuleval("--source-segment-size", str(segment), *pairs)
    expected = ours(utterances, tmp_path / "conf.yaml", **options)
    log = read_log(out)
    assert [i.prediction for i in log] == [i.prediction for i in expected]
    assert [i.delays for i in log] == [i.delays for i in expected]
    assert [i.source_length for i in log] == [i.source_length for i in expected]
    assert [i.reference for i in log] == [i.reference for i in expected] == list(ENGLISH)
    assert sum(len(i.delays) for i in log) > 10


def test_scores_are_simulevals(simuleval: SimulEval, tmp_path: Path) -> None:
    make(tmp_path)
    # With --computation-aware, SimulEval 1.1.4 makes even its plain columns computation-aware: hence two runs.
    for options, suffix in (((), ""), (("--computation-aware",), "_CA")):
        out = simuleval(*options)
        theirs, mine = scores_tsv(out), score(read_log(out))
        assert theirs["BLEU"] > 0
        for name in ("BLEU", *(metric + suffix for metric in ("AL", "LAAL", "AP", "DAL"))):
            assert mine[name] == pytest.approx(theirs[name], abs=1.1e-3), name


def test_characters(simuleval: SimulEval, tmp_path: Path) -> None:
    utterances = make(tmp_path, CHINESE)
    options = ("--eval-latency-unit", "char", "--sacrebleu-tokenizer", "zh", "--model-option", "vocabulary=chars")
    out = simuleval(*options, target_lang="zh")
    expected = ours(utterances, tmp_path / "conf.yaml", "char", "zh", vocabulary="chars")
    log = read_log(out)
    assert [(i.prediction, i.delays) for i in log] == [(i.prediction, i.delays) for i in expected]
    theirs, scores = scores_tsv(out), score(log, language="zh")
    for name in ("BLEU", "AL", "LAAL", "AP", "DAL"):
        assert scores[name] == pytest.approx(theirs[name], abs=1.1e-3), name


def test_agent_class_and_a_silent_utterance(simuleval: SimulEval, tmp_path: Path) -> None:
    """An utterance without a word must not end or shift the others."""
    utterances = make(tmp_path, samples=(9000, 1000, 20000))
    out = simuleval("--agent-class", "simulst.serve.simuleval.StreamAgent", "--no-scoring")
    expected = ours(utterances, tmp_path / "conf.yaml")
    assert [(i.prediction, i.delays) for i in read_log(out)] == [(i.prediction, i.delays) for i in expected]
    assert expected[1].prediction == ""


def test_context(simuleval: SimulEval, tmp_path: Path, told: list[Background]) -> None:
    """Each utterance is told the line `*`, as SimulEval names no recording."""
    make(tmp_path)
    (tmp_path / "context.tsv").write_text("recording\ttarget_text\n*\tA talk.\n")
    simuleval("--no-scoring", "--context", str(tmp_path / "context.tsv"))
    assert len(told) > len(SAMPLES) and set(told) == {Background("", "A talk.")}
    (tmp_path / "context.tsv").write_text("recording\ttext\n0\tA talk.\n")
    with pytest.raises(SimulstError, match=r"no line for the recording '\*'; add it"):
        simuleval("--no-scoring", "--context", str(tmp_path / "context.tsv"))


def test_skipped_steps_are_told(
    simuleval: SimulEval, tmp_path: Path, caplog: pytest.LogCaptureFixture, clock: SimpleNamespace
) -> None:
    """Once for each utterance. A search takes longer than the chunk."""
    make(tmp_path, ENGLISH[:2], samples=(6400, 4800))
    conf = tmp_path / "conf.yaml"
    for late, count in (("wait", 0), ("skip", 2)):
        conf.write_text(f"read: {{type: chunk, ms: 30}}\ncommit: {{type: all}}\nlate: {{type: {late}}}\n")
        simuleval("--model-option", "sleep=0.04", "--no-scoring")
        assert caplog.text.count("decoding steps were left out") == count


def test_samples_arrive_once_and_exactly(simuleval: SimulEval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[np.ndarray] = []
    session = FakeModel.session

    def listen(self: FakeModel, *more: Any) -> Any:
        new = session(self, *more)
        heard.append(np.zeros(0, dtype=np.float32))
        extend = new.extend

        def hear(samples: np.ndarray, final: bool = False) -> None:
            heard[-1] = np.concatenate([heard[-1], samples])
            extend(samples)

        new.extend = hear
        return new

    monkeypatch.setattr(FakeModel, "session", listen)
    utterances = make(tmp_path, rate=11025)
    (tmp_path / "raw.txt").write_text("".join(f"{u.wav}\n" for u in utterances))
    for source in ("files/source.txt", "raw.txt"):
        files = (tmp_path / source).read_text().split()
        heard.clear()
        simuleval("--no-scoring", source=tmp_path / source)
        streams = [samples for samples in heard if samples.size]
        for samples, file in zip(streams, files, strict=True):
            np.testing.assert_array_equal(samples, load_audio(file))
