"""Test-time wait-k with real searches: the result equals that of complete searches, cut to one word per step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny_espnet
import torch
from fake import noted
from tiny_espnet import frames_of, noise

from simulst.calls import run_alone
from simulst.config import Decoding
from simulst.hypotheses import Tokens
from simulst.meter import Memo, Meter
from simulst.models.espnet.model import ESPnet
from simulst.models.whisper import network
from simulst.models.whisper.model import Whisper
from simulst.opening import Opening
from simulst.policy.commit import All
from simulst.policy.read import WaitKAtTestTime, WaitStride
from simulst.policy.stop import MaxTokens, MaxWords
from simulst.search import BWBS, IBWBS, BeamSearch, JointBeamSearch
from simulst.search.beam import JointSearch
from simulst.session import Model, Session
from simulst.stream import Stream

torch.set_num_threads(1)  # on so little, threads only wait for each other
GREEDY = JointBeamSearch(1, max_length_ratio=0.5)
SAMPLES, UNIT = 60000, 4480
STEPS = [3 * UNIT + i * UNIT for i in range((SAMPLES - 3 * UNIT - 1) // UNIT + 1)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ESPnet]:
    """Random models that depend on the audio and begin words often."""
    encoders = ("transformer", "contextual_block_conformer")
    return {
        encoder: tiny_espnet.load_wordy(tmp_path_factory.mktemp(encoder), encoder, seed, attention=4.5)
        for seed, encoder in enumerate(encoders)
    }


def literal(model: Model, audio: np.ndarray, options: Any) -> list[tuple[float, Tokens]]:
    """Test-time wait-3 by definition: decode the audio so far to the end of the sentence, and keep the first new word.

    If the encoder has written nothing new, nothing is decoded.
    """
    committed: Tokens = ()
    steps, decoded = [], steps_of(model, audio)
    for end in [*STEPS, audio.size]:
        if end not in decoded:
            steps.append((end / 16, committed))
            continue
        session = open_session(model)
        session.extend(audio[:end], final=end == audio.size)
        best = run_alone(session.search(committed, options, None)).best
        new = best[len(committed) :]
        ends = [i for i in range(1, len(new)) if len(session.text(new[: i + 1]).split()) > 1]
        committed = best if end == audio.size else committed + new[: ends[0] if ends else 0]
        steps.append((end / 16, committed))
    return steps


def steps_of(model: Model, audio: np.ndarray) -> list[int]:
    """Where there are more encoder frames than a unit before, and the end."""
    if not isinstance(model, ESPnet) or not model.blockwise:
        return [*STEPS, audio.size]
    frames = [0]
    for end in STEPS:
        session = open_session(model)
        session.extend(audio[:end])
        frames.append(len(frames_of(session)))
    new = [end for end, before, now in zip(STEPS, frames[:-1], frames[1:], strict=True) if now > before]
    assert 0 < len(new) < len(STEPS) / 2
    return [*new, audio.size]


def open_session(model: Model, meter: Meter | None = None) -> Session:
    return model.session(Opening(*(("es", "en") if isinstance(model, Whisper) else ("en", "de")), meter or Meter()))


def run(model: Model, audio: np.ndarray, options: Any, memo: Memo | None = None) -> list[tuple[float, Tokens]]:
    stream = Stream(
        open_session(model, Meter(memo)), Decoding(WaitKAtTestTime(3), All(whole_words=True), MaxWords(1), options)
    )
    steps = []
    for end in [*STEPS, audio.size]:
        stream.push(audio[stream.session.length : end], finished=end == audio.size)
        steps.append((end / 16, stream.committed))
        if end < audio.size:
            assert len([word for word in stream.emissions if word.delay_ms == end / 16 and word.text[0] == " "]) <= 1
            text = "".join(word.text for word in stream.emissions)
            # What ends within a character is written with its rest.
            committed = stream.session.text(stream.committed).strip()
            assert committed.startswith(text) and " " not in committed[len(text) :]
    assert stream.reads == [end / 16 for end in steps_of(model, audio)]
    return steps


@pytest.mark.parametrize("encoder", ["transformer", "contextual_block_conformer"])
@pytest.mark.parametrize("seed", [0, 1])
def test_espnet(models: dict[str, ESPnet], encoder: str, seed: int) -> None:
    model, audio = models[encoder], noise(SAMPLES, seed)
    expected = literal(model, audio, GREEDY)
    assert run(model, audio, GREEDY) == run(model, audio, GREEDY, Memo()) == expected
    assert len({committed for _, committed in expected}) > 4


def test_espnet_searches_no_further_than_the_next_word(
    models: dict[str, ESPnet], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, audio = models["transformer"], noise(SAMPLES, 0)
    steps = noted(monkeypatch, JointSearch, "_chosen", lambda *_: 1)
    begun = noted(monkeypatch, type(model.session(Opening("en", "de"))), "search", lambda *_: len(steps))
    written = [committed for _, committed in run(model, audio, GREEDY)]
    new = [len(b) - len(a) for a, b in zip([(), *written[:-1]], written, strict=True)]
    # The word, and the token that began the next.
    counts = np.diff(begun).tolist()
    assert [count for count, n in zip(counts, new[:-1], strict=True) if n and count != n + 1] == []
    assert any(new[:-1])


@pytest.mark.parametrize("options", [JointBeamSearch(4), BWBS(4, repetition=False), IBWBS(4)])
def test_other_searches(models: dict[str, ESPnet], options: Any) -> None:
    """At most a word a step (see `run`), and words do leave before the end."""
    steps = run(models["contextual_block_conformer"], noise(SAMPLES, 3), options)
    assert len({committed for _, committed in steps[:-1]}) > 2


@pytest.mark.parametrize("seed", [0, 1])
def test_whisper(whisper: Whisper, endless: Whisper, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a word is longer than CTranslate2 is asked for at first, as random ones are."""
    # The language of a text is checked as far as it was searched, here not to its end.
    monkeypatch.setattr("simulst.models.whisper.model.LEAST_TOKENS", 999)
    for model in (whisper, endless):
        audio, options = noise(SAMPLES, seed), BeamSearch(1, no_repeat_ngram=3)
        expected = literal(model, audio, options)
        assert run(model, audio, options) == run(model, audio, options, Memo()) == expected


def test_whisper_is_asked_for_few_tokens(endless: Whisper, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(monkeypatch, network, "generate", lambda calls: calls[0].max_new)
    run(endless, noise(SAMPLES, 0), BeamSearch(1))
    assert min(asked) == 10 and sum(n == 10 for n in asked) == len(STEPS)


@pytest.mark.parametrize(("ratio", "n", "bites"), [(0.2, 3, True), (0.2, 1, True), (1.0, 3, False)])
def test_length_ratio(models: dict[str, ESPnet], ratio: float, n: int, bites: bool) -> None:
    """Nguyen et al. 2021: N tokens a step, but no more in all than `max_length_ratio` times the encoder's frames.

    This model never ends a sentence, so q(t) is known.
    """
    options = JointBeamSearch(1, 0.0, max_length_ratio=ratio)
    stream = Stream(
        models["transformer"].session(Opening("en", "de")), Decoding(WaitStride(100, 10), All(), MaxTokens(n), options)
    )
    audio, q = noise(SAMPLES, 0)[:32000], 0
    for g in range(100, 200, 10):
        stream.push(audio[stream.session.length : g * 160])
        frames = len(frames_of(stream.session))
        q = min(q + n, max(q, int(ratio * frames)))
        assert (stream.reads[-1], len(stream.committed)) == (g * 10, q)
    assert (q < 10 * n) == bites
    stream.push(audio[stream.session.length :], finished=True)
    assert len(stream.committed) == int(ratio * len(frames_of(stream.session)))
