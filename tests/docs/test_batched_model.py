"""The family of docs/batched_model.md: what it hears alone, it hears in batches."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pages
import pytest
from fake import noted

from simulst.config import Decoding
from simulst.policy.commit import Hold, LocalAgreement
from simulst.policy.read import Chunk
from simulst.streams import open_stream
from simulst.streams.driver import Driver


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Any:
    [block] = pages.blocks("docs/batched_model.md", "python")
    module = ModuleType("notes")
    monkeypatch.setitem(sys.modules, "notes", module)  # its dataclass looks there
    exec(compile(block.text, "docs/batched_model.md", "exec"), vars(module))
    return module


def song(numbers: np.ndarray) -> np.ndarray:
    """A quarter of a second of each note."""
    seconds = np.arange(4000) / 16000
    hertz = 261.63 * 2 ** (numbers / 12)
    return 0.3 * np.sin(2 * np.pi * hertz[:, None] * seconds).astype(np.float32).ravel()


def test_in_batches_as_alone(notes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight songs of different lengths, cut differently: the driver's words, delays and reads are those of `push`."""
    model = notes.Notes()
    sizes = noted(monkeypatch, notes.Notes, "listen", lambda self, streams: len(streams))
    chance = np.random.default_rng(0)
    songs = [chance.integers(0, 12, 8 + 3 * number) for number in range(8)]
    hows = [Decoding(Chunk(400 + 100 * n), LocalAgreement(2) if n % 2 else Hold(3)) for n in range(8)]
    alone = [open_stream(model, how, "en", "en") for how in hows]
    for stream, tune in zip(alone, songs, strict=True):
        stream.push(song(tune), finished=True)
        assert stream.committed_text.split() == [notes.NOTES[number] for number in tune]
    assert set(sizes) == {1}
    driver, streams = Driver(), [open_stream(model, how, "en", "en") for how in hows]
    for number, (stream, tune) in enumerate(zip(streams, songs, strict=True)):
        pieces = np.array_split(song(tune), number + 1)
        for piece in pieces:
            driver.push(stream, piece, finished=piece is pieces[-1])
    while driver.busy:
        driver.step()
    assert max(sizes) > 1
    for one, other in zip(streams, alone, strict=True):
        assert [(w.text, w.delay_ms) for w in one.emissions] == [(w.text, w.delay_ms) for w in other.emissions]
        assert one.reads == other.reads
