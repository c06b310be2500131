"""Training on lag and quality: gradients by finite differences, the policy of decoding, the rewards of the log."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import sounds
import tiny_espnet
import torch
from tiny_espnet import frames_of

from simulst.config import Decoding
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError
from simulst.log.instance import Instance
from simulst.measure.latency import corpus_latency
from simulst.measure.quality import sentence_chrf
from simulst.models import load_model
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.models.espnet.network.lagging import Chunked
from simulst.opening import Opening
from simulst.policy.commit import All
from simulst.policy.read import Chunk
from simulst.policy.stop import Token
from simulst.prefix.chunks import Grid
from simulst.runs.decode import instance_of as logged
from simulst.search import JointBeamSearch
from simulst.stream import Stream
from simulst.training.reinforce import (
    Options,
    Policy,
    advantages_of,
    instance_of,
    policy_loss,
    read_training,
    reinforce,
)

CHUNKS, LAGS = (1680.0, 640.0), (0, 1)
SECONDS = {"a": 4.0, "b": 3.1, "c": 1.2}
FAST = Options(floor=0.0, updates=6, batch=2, group=4, learning_rate=0.01, save=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A random model that often waits, and data."""
    folder = tmp_path_factory.mktemp("reinforce")
    theirs = tiny_espnet.write_waiting(folder, "contextual_block_conformer", CHUNKS, LAGS)
    experiment = folder / "waiting/exp/st"
    wait = load_model(experiment).vocabulary.wait
    with torch.no_grad():
        theirs.decoder.output_layer.bias[wait] += 4
        theirs.decoder.output_layer.bias[-1] += 4
    torch.save(theirs.state_dict(), experiment / "chosen.pth")
    audio = {
        name: np.random.default_rng(number).normal(0, 0.1, int(seconds * 16000)).astype(np.float32)
        for number, (name, seconds) in enumerate(SECONDS.items())
    }
    sounds.write(folder / "data", audio, {"tc.de": dict.fromkeys(audio, "Das ist ein Haus.")})
    return folder, theirs


def policy_of(folder: Path, theirs: Any) -> tuple[ESPnet, Policy]:
    model = load_model(folder / "waiting/exp/st")
    assert isinstance(model, ESPnet) and isinstance(model.decoder, CachedDecoder)
    assert isinstance(model.decoder.lagging, Chunked)
    return model, Policy(theirs.decoder, theirs.sos, theirs.eos, model.decoder.lagging)


def test_gradients_are_finite_differences(made: tuple[Path, Any]) -> None:
    """Of tokens on both sides of the clip, for advantages of both signs."""
    folder, theirs = made
    model, policy = policy_of(folder, theirs)
    decoder = theirs.decoder.double()
    generator = torch.manual_seed(0)
    frames, lengths = torch.randn(4, 70, tiny_espnet.WIDTH, dtype=torch.double), torch.tensor([70, 70, 60, 60])
    begins = [model.vocabulary.lags[0]] * 4
    samples = policy.sample(frames, lengths, torch.tensor([2, 2, 1, 1]), begins, 12, 1.3, generator)
    moved = samples.log_p + 0.4 * torch.randn(samples.log_p.shape, dtype=torch.double).masked_fill(~samples.free, 0)
    samples, options = samples._replace(log_p=moved), Options(clip=0.2, kl=0.5, temperature=1.3)
    reference = moved + 0.3 * torch.randn(moved.shape, dtype=torch.double).masked_fill(~samples.free, 0)
    gains = torch.tensor([1.0, -0.7, 0.4, -1.2], dtype=torch.double)
    loss, _ = policy_loss(policy, samples, gains, reference, options)
    decoder.zero_grad()
    loss.backward()
    checked = 0
    for name, weight in decoder.named_parameters():
        if weight.grad is None or not name.endswith(("embed.0.weight", "linear_q.weight", "norm2.bias", "_layer.bias")):
            continue
        flat, place = weight.data.view(-1), int(weight.grad.abs().argmax())
        before, values = float(flat[place]), []
        for step in (1e-6, -1e-6):
            flat[place] = before + step
            with torch.no_grad():
                values.append(float(policy_loss(policy, samples, gains, reference, options)[0]))
        flat[place] = before
        assert float(weight.grad.view(-1)[place]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4, abs=1e-8)
        checked += 1
    assert checked >= 6
    theirs.decoder.float()


def test_the_policy_is_that_of_decoding(made: tuple[Path, Any]) -> None:
    """log p of sampled tokens against the library's decoder after each token, with the frames heard by then.

    And without chance, the samples are what a stream writes; the reward's parts are what its log is scored with.
    """
    folder, theirs = made
    model, policy = policy_of(folder, theirs)
    wait, grid = model.vocabulary.wait, Grid(*CHUNKS)
    for number, utterance in enumerate(read_data_dir(folder / "data", "de")):
        audio, _ = soundfile.read(utterance.wav, dtype="float32")
        ends, lag = [*grid.ends(audio.size / 16), audio.size / 16], LAGS[number % 2]
        session = model.session(Opening("en", "de"))
        session.extend(audio, final=True)
        frames = frames_of(session).clone()[None]
        about = (frames, torch.tensor([frames.shape[1]]), torch.tensor([len(ends) - 1]), [model.vocabulary.lags[lag]])
        samples = policy.sample(*about, 25, 1.0, torch.manual_seed(number))
        tokens = samples.tokens[0].tolist()
        assert tokens.count(wait) == len(ends) - 1 and tokens[-1] == theirs.eos
        session = model.session(Opening("en", "de"))
        for place, token in enumerate(tokens):
            if not samples.free[0, place]:
                continue
            heard = tokens[:place].count(wait)
            session.extend(audio[session.length : int(ends[heard] * 16)], final=heard == len(ends) - 1)
            memory = model.decoder.memory()
            memory.append(frames_of(session))
            log_p, _ = model.decoder.prefill(torch.tensor([theirs.sos, *tokens[:place]]), memory)
            log_p = log_p.clone()  # no tensor of inference
            log_p[0, wait if heard == len(ends) - 1 else theirs.eos] = -torch.inf
            expected = torch.log_softmax(log_p[0], -1)[token]
            assert float(samples.log_p[0, place]) == pytest.approx(float(expected), abs=1e-3)
        decoding = Decoding(Chunk(CHUNKS[1], CHUNKS[0]), All(last_word=True, punctuation=True), Token(lag))
        stream = Stream(model.session(Opening("en", "de")), replace(decoding, search=JointBeamSearch(1, 0.0)))
        stream.push(audio, finished=True)
        greedy = policy.sample(*about, 10_000 if number else 500, 1e-4, torch.manual_seed(0))
        assert tuple(greedy.tokens[0, :-1].tolist()) == stream.committed
        one = instance_of(model, policy.text(greedy.tokens[0]), ends, "word", utterance.reference)
        log = logged(stream, utterance, 0, audio.size / 16)
        assert (one.prediction, one.delays, one.source_length) == (log.prediction, log.delays, log.source_length)
        [quality], lag_ms = Options().qualities([one], "de"), corpus_latency([log], "word")["LAAL"]
        assert quality * 100 == pytest.approx(sentence_chrf([log.prediction], [utterance.reference])[0])
        reward = Options(floor=0.0, weight=0.5, most_lag=9000).reward
        assert reward(quality, lag_ms) == pytest.approx(quality + (0.5 * (1 - lag_ms / 9000) if lag_ms else 0))


def test_a_full_text_only_waits(made: tuple[Path, Any]) -> None:
    folder, theirs = made
    model, policy = policy_of(folder, theirs)
    wait = model.vocabulary.wait
    about = (torch.randn(2, 70, tiny_espnet.WIDTH), torch.tensor([70, 70]), torch.tensor([3, 0]))
    samples = policy.sample(*about, [model.vocabulary.lags[0]] * 2, 3, 1.0, torch.manual_seed(3))
    for row, free, chunks in zip(samples.tokens.tolist(), samples.free.tolist(), (3, 0), strict=True):
        assert row.count(wait) == chunks and len([t for t in row if t not in (wait, theirs.eos)]) <= 3
        assert not any(free[: len(model.vocabulary.lags[0])])
    assert policy.text(torch.tensor([5, wait, wait, 6, theirs.eos, theirs.eos])) == [
        (5, wait),
        (wait,),
        (6,),
    ]


@pytest.mark.parametrize("lengths", [[0, 70], [0, 0]])
def test_where_no_frame_is_heard_nothing_is_written_or_learnt(made: tuple[Path, Any], lengths: list[int]) -> None:
    """An utterance may be shorter than the encoder's first frame."""
    folder, theirs = made
    model, policy = policy_of(folder, theirs)
    frames, lag = torch.randn(2, 70, tiny_espnet.WIDTH), model.vocabulary.lags[0]
    about = (frames, torch.tensor(lengths), torch.tensor([0, 0]), [lag] * 2)
    samples = policy.sample(*about, 9, 1.0, torch.manual_seed(2))
    assert policy.text(samples.tokens[0]) == [lag] and not samples.free[0].any()
    assert samples.free[1].any() == (lengths[1] > 0)
    theirs.decoder.zero_grad()
    loss, _ = policy_loss(policy, samples, torch.ones(2), samples.log_p, Options())
    loss.backward()
    assert all(weight.grad.isfinite().all() for weight in theirs.decoder.parameters() if weight.grad is not None)


def test_lag_counts_only_above_a_quality() -> None:
    reward = Options(floor=0.5, weight=0.4, most_lag=2000).reward
    rewards = [reward(q, lag) for q, lag in ((0.4, 0.0), (0.5, 1000.0), (0.6, 3000.0), (0.6, None))]
    assert rewards == [0.4, 0.7, 0.6, 0.6]
    found = advantages_of([1.0, 3.0, 5.0, 5.0], 2)
    torch.testing.assert_close(found, torch.tensor([-1.0, 1.0, 0.0, 0.0]), atol=1e-5, rtol=0)
    assert Options("bleu").qualities([instance(text="Das ist ein Haus.")], "de") == [pytest.approx(1.0)]


def instance(text: str) -> Instance:
    delays = [1000.0] * len(text.split())
    return Instance(0, text, delays, delays, len(delays), "Das ist ein Haus.", [""], 2000.0)


def train(folder: Path, out: Path, options: Options, **others: Any) -> list[dict[str, float]]:
    reinforce(folder / "waiting/exp/st", "chosen.pth", folder / "data", "de", out, options, **others)
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def test_the_reward_rises_and_a_resumed_training_is_the_same(made: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = made
    lines = train(folder, tmp_path / "once", replace(FAST, updates=30))
    assert len(lines) == 30 and {"reward", "LAAL", "length", "entropy", "kl"} <= lines[0].keys()
    first, last = (np.mean([line["reward"] for line in part]) for part in (lines[:6], lines[-6:]))
    assert last > first + 0.02
    model = load_model(tmp_path / "once")
    assert isinstance(model, ESPnet) and model.session(Opening("en", "de")).traits.wait is not None
    train(folder, tmp_path / "twice", replace(FAST, updates=4))
    with (tmp_path / "twice/log.jsonl").open("a") as file:  # killed after an update, before the next checkpoint
        file.write(json.dumps({"update": 5, "reward": 9}) + "\n")
    assert train(folder, tmp_path / "twice", FAST) == lines[:6]


def test_what_can_not_be_learnt_from(
    made: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = made
    train(folder, tmp_path / "begun", replace(FAST, updates=1))
    with pytest.raises(SimulstError, match=r"was begun with quality chrf, not bleu; .*--force"):
        train(folder, tmp_path / "begun", replace(FAST, quality="bleu"))
    with pytest.raises(SimulstError, match="had the same reward"):
        train(folder, tmp_path / "constant", replace(FAST, weight=0.0, quality="bleu", temperature=1e-3))
    with pytest.raises(SimulstError, match=r"no translation has a lag below 0.001 ms; raise 'most_lag'"):
        train(folder, tmp_path / "late", replace(FAST, most_lag=0.001))
    train(folder, tmp_path / "bad", replace(FAST, floor=1.0))
    assert "no translation has a quality of 1, so the lag does not count" in capsys.readouterr().out
    base = folder / "base/exp/st"
    with pytest.raises(SimulstError, match="the model learnt no wait token"):
        reinforce(base, "", folder / "data", "de", tmp_path / "none", FAST)
    tiny_espnet.write_waiting(tmp_path / "full", "conformer", (800.0, 400.0), LAGS)
    with pytest.raises(SimulstError, match="give a blockwise model"):
        reinforce(tmp_path / "full/waiting/exp/st", "", folder / "data", "de", tmp_path / "none", FAST)
    for wrong in ("group: 1", "updates: 0", "kl: -1", "floor: 40", "lag: 2", "- 1"):
        (tmp_path / "wrong.yaml").write_text(wrong)
        with pytest.raises(SimulstError, match=r"wrong.yaml: "):
            read_training(tmp_path / "wrong.yaml")


def test_it_tells_of_a_collapse(made: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, theirs = made
    other = tmp_path / "model"
    shutil.copytree(folder / "waiting", other / "waiting")
    (other / "data").symlink_to(folder / "data")
    state = theirs.state_dict()
    state = {name: tensor.clone() for name, tensor in state.items()}
    for token in (load_model(folder / "waiting/exp/st").vocabulary.wait, -1):
        state["decoder.output_layer.bias"][token] += 30
    torch.save(state, other / "waiting/exp/st/chosen.pth")
    with pytest.raises(SimulstError, match="had the same reward"):
        train(other, tmp_path / "out", FAST)
    said = capsys.readouterr().out
    assert "most translations are empty, the model only waits" in said and "the model hardly varies any more" in said
