"""Latency against the scorers of SimulEval 1.1.4, and against values computed by hand."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simuleval.evaluator.instance import LogInstance
from simuleval.evaluator.scorers.latency_scorer import ALScorer, APScorer, DALScorer, LAALScorer

from simulst.config import Decoding
from simulst.data.datadir import Utterance
from simulst.hypotheses import Found, Hypothesis, Tokens
from simulst.log.instance import Instance
from simulst.measure.latency import computation_ms, corpus_latency, instance_latency, real_time_factor
from simulst.opening import Opening
from simulst.policy.commit import All
from simulst.policy.context import TokensView
from simulst.policy.read import WaitStride
from simulst.policy.stop import MaxTokens, Stopping
from simulst.runs.decode import instance_of
from simulst.search import SearchOptions
from simulst.session import Session
from simulst.stream import Stream

pytestmark = pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated")  # SimulEval's

SIMULEVAL = {"AL": ALScorer, "LAAL": LAALScorer, "AP": APScorer, "DAL": DALScorer}

TIMES = st.floats(0, 20000, allow_nan=False)
WORDS = st.text("abc中é.", min_size=1, max_size=4)


def log_entry(
    delays: list[float],
    source_length: float,
    reference: str,
    elapsed: list[float] | None = None,
    unit: str = "word",
    **more: object,
) -> Instance:
    prediction = (" " if unit == "word" else "").join("x" * len(delays))
    return Instance(
        index=0,
        prediction=prediction,
        delays=delays,
        elapsed=elapsed if elapsed is not None else [],
        prediction_length=len(delays),
        reference=reference,
        source=["a.wav"],
        source_length=source_length,
        **more,  # type: ignore[arg-type]
    )


@st.composite
def entries(draw: st.DrawFn, unit: str, min_units: int = 1) -> Instance:
    """Logs that are mostly in order, some not, some starting or ending after the source."""
    delays = draw(st.lists(TIMES, min_size=min_units, max_size=12))
    if draw(st.booleans()):
        delays = sorted(delays)
    source_length = draw(st.one_of(st.floats(1, 15000), st.sampled_from(delays or [1.0]).map(lambda d: max(d, 1.0))))
    elapsed = [d + draw(st.floats(0, 3000)) for d in delays]
    reference = draw(st.sampled_from([" ", "  "])).join(draw(st.lists(WORDS, min_size=1, max_size=12)))
    return log_entry(delays, source_length, reference, elapsed, unit)


def simuleval_scores(instances: list[Instance], unit: str, computation_aware: bool, use_ref_len: bool = True) -> dict:
    logs = {i: LogInstance(instance.to_json(), unit) for i, instance in enumerate(instances)}
    return {name: scorer(computation_aware, use_ref_len)(logs) for name, scorer in SIMULEVAL.items()}


@pytest.mark.parametrize("unit", ["word", "char"])
@settings(max_examples=60)
@given(data=st.data())
def test_corpus_equals_simuleval(data: st.DataObject, unit: str) -> None:
    instances = data.draw(st.lists(entries(unit, min_units=0), min_size=1, max_size=4))
    instances.append(data.draw(entries(unit)))  # SimulEval fails where all are empty
    ours = corpus_latency(instances, unit)
    for suffix, computation_aware in (("", False), ("_CA", True)):
        theirs = simuleval_scores(instances, unit, computation_aware)
        assert {n: ours[n + suffix] for n in theirs} == pytest.approx(theirs, rel=1e-9, abs=1e-6)
    by_hypothesis = simuleval_scores(instances, unit, computation_aware=False, use_ref_len=False)
    assert ours["AL_original"] == pytest.approx(by_hypothesis["AL"], rel=1e-9, abs=1e-6)


class Early(Session):
    """A greedy model of tokens that are words; what it says next follows from the frames (10 ms) and the text so far.

    It ends its text too early, as long as there is little speech.
    """

    def __init__(self, seed: int, frames: int) -> None:
        super().__init__(Opening("es", "en"))
        self.seed, self.frames, self.samples = seed, frames, 0

    @property
    def length(self) -> int:
        return self.samples

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        self.samples += len(samples)

    def next(self, frames: int, text: Tokens) -> int | None:
        """The next token; None for </s>."""
        draw = random.Random(f"{self.seed} {frames} {text}")
        wanted = frames * (5 + self.seed % 25) // self.frames + draw.randint(-2, 2)
        return draw.randint(0, 9) if len(text) < wanted else None

    def search(self, committed: Tokens, options: SearchOptions, stop: Stopping | None) -> Found:
        text = committed
        while stop is None or not stop.ends(TokensView(text[len(committed) :])):
            if (token := self.next(self.samples // 160, text)) is None:
                break
            text = (*text, token)
        return Found([Hypothesis(text)])

    def text(self, tokens: Tokens) -> str:
        return "".join(f" {token}" for token in tokens)

    def spell(self, text: str) -> Tokens:
        return tuple(map(int, text.split()))


def steps_of_the_paper(model: Early, k: int, s: int, n: int) -> list[tuple[int, int]]:
    """g(t), in frames, and w_t of each step of Nguyen et al. 2021, section 2.2, until </s> on the whole source."""
    steps: list[tuple[int, int]] = []
    text: Tokens = ()
    while True:
        g, written, ended = min(k + len(steps) * s, model.frames), 0, False
        while written < n and not ended:
            token = model.next(g, text)
            ended = token is None
            if token is not None:
                text, written = (*text, token), written + 1
        steps.append((g, written))
        if ended and g == model.frames:
            return steps


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    frames=st.integers(20, 400),
    k=st.integers(10, 200),
    s=st.integers(1, 40),
    n=st.integers(1, 4),
    reference=st.integers(1, 30),
)
def test_al_steps_is_equation_6_of_the_papers_loop(
    seed: int, frames: int, k: int, s: int, n: int, reference: int
) -> None:
    """From the log of a stream; also in the end, where the paper goes on to write at most N tokens a step."""
    model = Early(seed, frames)
    steps = steps_of_the_paper(model, k, s, n)
    stream = Stream(model, Decoding(WaitStride(k, s), All(), MaxTokens(n)))
    stream.push(np.zeros(frames * 160, np.float32), finished=True)
    utterance = Utterance("a", Path("a.wav"), reference=" ".join("7" * reference))
    instance = instance_of(stream, utterance, 0, frames * 10.0)
    scores = instance_latency(Instance(**json.loads(instance.to_json())), "word")
    if scores is None:  # nothing was written
        assert sum(written for _, written in steps) == 0
        return
    tau = next(t for t, (g, _) in enumerate(steps, 1) if g == frames)
    assert instance.reads == [10.0 * g for g, _ in steps[:tau]]
    assert instance.writes[: tau - 1] == [written for _, written in steps[: tau - 1]]
    gamma = reference / frames
    total = sum((g - (t - 1) / gamma) * written for t, (g, written) in enumerate(steps[:tau], 1))
    assert scores["AL_steps"] == pytest.approx(10 * total / tau, abs=1e-6)


def test_al_steps_counts_the_tokens_of_the_reference() -> None:
    """Two steps of two tokens each, one word in all, against a reference of one word and of 2 or 4 tokens."""
    instance = log_entry([2000], 2000, "x", [2500], reads=[1000.0, 2000.0], writes=[2, 2], reference_tokens=2)
    scores = instance_latency(instance, "word")
    assert scores is not None and scores["AL_steps"] == pytest.approx((1000 * 2 + (2000 - 1000) * 2) / 2)
    scores = instance_latency(replace(instance, reference_tokens=4), "word")
    assert scores is not None and scores["AL_steps"] == pytest.approx((1000 * 2 + (2000 - 500) * 2) / 2)
    for unknown in (replace(instance, reference_tokens=0), replace(instance, writes=[])):
        scores = instance_latency(unknown, "word")
        assert scores is not None and scores["AL_steps"] is None
    aware = instance_latency(instance, "word", computation_aware=True)
    assert aware is not None and aware["AL_steps"] is None


@pytest.mark.parametrize("unit", ["word", "char"])
def test_empty_reference_counts_as_one_unit(unit: str) -> None:
    instance = log_entry([1000, 2000], 2000, "", [1000, 2000], unit)
    scores = instance_latency(instance, unit)
    assert scores is not None
    # Ideal step 2000 / 1: (1000 + (2000 - 2000)) / 2.
    assert scores["AL"] == pytest.approx(500)
    assert scores["AP"] == pytest.approx(1.5)
    if unit == "word":
        assert scores["AL"] == pytest.approx(simuleval_scores([instance], unit, False)["AL"])


def test_rtf_sums_over_the_corpus() -> None:
    logged = log_entry([1000, 2000], 4000, "a", [1100, 2500], compute_ms=1500)
    from_elapsed = log_entry([1000, 2000], 2000, "a", [1100, 2300])
    unknown = log_entry([1000], 9000, "a")
    text_input = log_entry([3, 4], 9000, "a", [0, 0])
    assert [computation_ms(i) for i in (logged, from_elapsed, unknown, text_input)] == [1500, 300, None, None]
    assert real_time_factor([logged, from_elapsed, unknown, text_input]) == pytest.approx(1800 / 6000)
    assert real_time_factor([unknown]) is None
    assert computation_ms(replace(from_elapsed, elapsed=from_elapsed.delays)) == 0
    # The computation time of an utterance that wrote nothing counts, too, if it was logged.
    assert real_time_factor([log_entry([], 2000, "a", compute_ms=500)]) == pytest.approx(0.25)
