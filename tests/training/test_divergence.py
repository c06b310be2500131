"""The head that foresees divergence: its labels against a slow version, what it learns, and the STOP with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sounds
import tiny_espnet
import torch

from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.models.espnet.model import ESPnet
from simulst.opening import Opening
from simulst.policy.commit import All
from simulst.policy.read import Chunk
from simulst.policy.stop import Divergence, Entropy, MaxTokens, Stop
from simulst.prefix.chunks import Grid
from simulst.search import BWBS, IBWBS, JointBeamSearch, SearchOptions
from simulst.stream import Step, Stream
from simulst.training import divergence
from simulst.training.divergence import examples_of, train_divergence

GRID = Grid(1680.0, 640.0)
SECONDS = (4.0, 3.1, 2.5, 5.0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A random model whose head was trained, and data."""
    folder = tmp_path_factory.mktemp("divergence")
    theirs = tiny_espnet.write(folder)
    audio = {str(number): noise(number) for number in range(len(SECONDS))}
    sounds.write(folder / "sound", audio, {"tc.de": dict.fromkeys(audio, "Das ist ein Haus.")})
    train(folder)
    return folder, theirs


def noise(seed: int) -> np.ndarray:
    """It grows louder, so that what comes later matters."""
    count = int(SECONDS[seed] * 16000)
    return (np.random.default_rng(seed).normal(0, 0.1, count) * np.linspace(0.1, 3, count)).astype(np.float32)


def train(folder: Path, grid: Grid = GRID, **others: Any) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(divergence, "PASSES", 60)
        train_divergence(folder / "exp/st", "", folder / "sound", "de", grid, **others)


def stream_of(folder: Path, stop: Stop, search: SearchOptions, watch: Any = None) -> Stream:
    session = load_model(folder / "exp/st").session(Opening("en", "de"))
    return Stream(session, Decoding(Chunk(640, 1680), All(), stop, search), watch=watch)


def test_labels_are_those_of_a_slow_version(made: tuple[Path, Any]) -> None:
    folder, theirs = made
    model = load_model(folder / "exp/st")
    assert isinstance(model, ESPnet)
    samples = noise(0)
    found = examples_of(model, samples, GRID, "de")
    offline = Stream(model.session(Opening("en", "de")), Decoding(Chunk(10**6), All(), search=JointBeamSearch(1, 0.3)))
    offline.push(samples, finished=True)
    text = torch.tensor([[theirs.sos, *offline.committed]])
    rows, divergences = [], []
    for end in [samples.size / 16, *reversed(GRID.ends(samples.size / 16))]:
        session = model.session(Opening("en", "de"))
        session.extend(samples[: int(end * 16)], final=int(end * 16) == samples.size)
        frames = tiny_espnet.frames_of(session)[None]
        with torch.inference_mode():
            logits, _ = theirs.decoder(frames, torch.tensor([frames.shape[1]]), text, torch.tensor([text.shape[1]]))
        rows.append(torch.log_softmax(logits[0], -1))
        if len(rows) > 1:
            divergences.append(torch.nn.functional.kl_div(rows[-1], rows[0], reduction="none", log_target=True).sum(-1))
    torch.testing.assert_close(found.targets, torch.cat(divergences), atol=1e-3, rtol=1e-3)
    with torch.inference_mode():
        scores = torch.log_softmax(theirs.decoder.output_layer(found.states), -1)
    torch.testing.assert_close(scores, torch.cat(rows[1:]), atol=1e-3, rtol=1e-3)


def test_it_learns_and_goes_on(made: tuple[Path, Any]) -> None:
    folder, _ = made
    log = folder / "exp/st/divergence/log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == 60 and lines[-1]["loss"] < 0.6 * lines[0]["loss"]
    assert max(line["correlation"] for line in lines) > 0.3
    before, examples = log.read_text(), folder / "exp/st/divergence/000000.pth"
    made_at = examples.stat().st_mtime_ns
    train(folder)
    assert log.read_text() == before and examples.stat().st_mtime_ns == made_at
    with pytest.raises(SimulstError, match="was begun with ms 640"):
        train(folder, Grid(1680.0, 1280.0))


@pytest.mark.parametrize("search", [JointBeamSearch(1, 0.3), JointBeamSearch(3, 0.3), BWBS(2, 0.3), IBWBS(2, 0.3)])
@pytest.mark.parametrize("kind", [Divergence, Entropy])
def test_a_step_ends_where_the_number_passes_the_bound(
    made: tuple[Path, Any], kind: Any, search: SearchOptions
) -> None:
    """And the words are the same however the speech comes."""
    folder, _ = made
    steps: list[Step] = []
    stream_of(folder, kind(0.0), search, steps.append).push(noise(3), finished=True)
    numbers = [float(step.why.split()[1].rstrip(",")) for step in steps if step.why]
    assert len(numbers) > 3
    bound = float(np.median(numbers))
    steps, pieces = [], []
    for piece in (noise(3).size, 5000):
        stream = stream_of(folder, kind(bound), search, steps.append)
        for start in range(0, noise(3).size, piece):
            stream.push(noise(3)[start : start + piece], finished=start + piece >= noise(3).size)
        pieces.append(stream.committed)
    assert pieces[0] == pieces[1]
    for step in (step for step in steps if step.stopped is not None):
        number = float(step.why.split()[1].rstrip(","))
        assert number >= bound - 0.01 or not step.stopped


def test_the_numbers_by_their_definition(made: tuple[Path, Any]) -> None:
    """Entropy of the first token against ESPnet's decoder; the head's number against the head."""
    folder, theirs = made
    model = load_model(folder / "exp/st")
    assert isinstance(model, ESPnet) and model.head is not None
    session = model.session(Opening("en", "de"))
    session.extend(noise(0)[: 1680 * 16])
    frames = tiny_espnet.frames_of(session)[None]
    with torch.inference_mode():
        logits, _ = theirs.decoder(
            frames, torch.tensor([frames.shape[1]]), torch.tensor([[theirs.sos]]), torch.tensor([1])
        )
        memory = model.decoder.memory()
        memory.append(frames[0])
        _, state = model.decoder.prefill(torch.tensor([theirs.sos]), memory)
    p = torch.softmax(logits[0, 0].double(), -1)
    for stop, expected in (
        (Entropy(0.0), float(torch.distributions.Categorical(p).entropy())),
        (Divergence(0.0), model.head.foresee(state.hidden[0])),
    ):
        steps: list[Step] = []
        stream_of(folder, stop, JointBeamSearch(2, 0.3), steps.append).push(noise(0)[: 1680 * 16])
        assert float(steps[0].why.split()[1].rstrip(",")) == pytest.approx(expected, abs=0.006)


def test_what_has_no_head(made: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = made
    other = load_model(folder / "exp/st", checkpoint="3epoch.pth")
    assert isinstance(other, ESPnet) and other.head is None  # it is that of other weights
    shutil.copytree(folder / "exp/st", tmp_path / "again/exp/st", symlinks=True)
    shutil.copytree(folder / "data", tmp_path / "again/data")
    assert load_model(tmp_path / "again/exp/st").head is not None
    weights = tmp_path / "again/exp/st/valid.acc.ave_3best.pth"
    torch.save({name: 2 * tensor for name, tensor in torch.load(weights).items()}, weights)
    assert load_model(tmp_path / "again/exp/st").head is None  # the model was trained again
    with pytest.raises(SimulstError, match="divergence needs a head that foresees divergence"):
        Stream(other.session(Opening("en", "de")), Decoding(Chunk(640), All(), Divergence(1.0)))
    Stream(other.session(Opening("en", "de")), Decoding(Chunk(640), All(), MaxTokens(1)))
    tiny_espnet.write_waiting(tmp_path / "waits", "contextual_block_conformer", (1680.0, 640.0), (0,))
    tiny_espnet.write(tmp_path / "full", "conformer")
    for experiment, message in (
        (tmp_path / "waits/waiting", "waits by its wait token"),
        (tmp_path / "full", "give a model"),
    ):
        with pytest.raises(SimulstError, match=message):
            train_divergence(experiment / "exp/st", "", folder / "sound", "de", GRID)
    with pytest.raises(SimulstError, match="0 utterances are longer than the first chunk"):
        train_divergence(folder / "exp/st", "3epoch.pth", folder / "sound", "de", Grid(9000, 640), force=True)
