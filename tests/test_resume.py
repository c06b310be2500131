"""A run that was interrupted anywhere, and of which something was changed: refused, or as if it had begun so."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_runs import LA2, command, data, options, simulst, timeless

from simulst.log.instance import Instance
from simulst.runs import decode

__all__ = ["data"]  # a fixture

NAMES = [f"u{i}" for i in range(6)]
Change = Callable[[Path], list[object]]
"""Changes files below the folder, and gives options of the command."""


def text(folder: Path, name: str) -> list[object]:
    path = folder / "data/text.en"
    path.write_text(path.read_text().replace(f"{name} ", f"{name} other "))
    return []


def audio(folder: Path, name: str) -> list[object]:
    path = folder / f"data/{name}.wav"
    samples, rate = soundfile.read(path)
    soundfile.write(path, np.concatenate([samples, samples[:4000]]), rate, subtype="PCM_16")
    return []


def pointed_elsewhere(folder: Path, name: str) -> list[object]:
    path = folder / "data/wav.scp"
    path.write_text(path.read_text().replace(f"{name} {name}.wav", f"{name} u{5 - int(name[1])}.wav"))
    return []


def same_audio_elsewhere(folder: Path, name: str) -> list[object]:
    shutil.copy(folder / f"data/{name}.wav", folder / "copy.wav")
    path = folder / "data/wav.scp"
    path.write_text(path.read_text().replace(f"{name} {name}.wav", f"{name} {folder / 'copy.wav'}"))
    return []


def segments(folder: Path, name: str) -> list[object]:
    lines = [f"{one} {one} 0.0 {1.0 + 0.37 * int(one[1]) - 0.2 * (one == name):.3f}\n" for one in NAMES]
    (folder / "data/segments").write_text("".join(lines))
    return []


def renamed(folder: Path, name: str) -> list[object]:
    for file in ("wav.scp", "text.en"):
        path = folder / "data" / file
        path.write_text(path.read_text().replace(f"{name} ", f"{name}x "))
    return []


def configuration(folder: Path, name: str) -> list[object]:
    (folder / "la2.yaml").write_text(LA2.replace("ms: 500", "ms: 600"))
    return []


def nothing(folder: Path, name: str) -> list[object]:
    return []


def other_text(folder: Path, name: str) -> list[object]:
    lines = (folder / "data/text.en").read_text().splitlines()
    (folder / "data/text.de").write_text("".join(line + " anders\n" for line in lines))
    return ["--text", "de"]


CHANGES: list[Any] = [
    *(text, audio, pointed_elsewhere, same_audio_elsewhere, segments, renamed, configuration, nothing, other_text),
    *(lambda folder, name: options(seed=1), lambda folder, name: ["--limit", 5]),
    *(lambda folder, name: ["--unit", "char"], lambda folder, name: ["--source-lang", "fr"]),
    lambda folder, name: ["weights"],
]
NUMBERS = itertools.count()
SAME = (nothing, same_audio_elsewhere)


def succeeds(*args: object) -> None:
    status, _, error = simulst(*args)
    assert status == 0, error


def without_paths(folder: Path) -> list[Instance]:
    """A log without times, and without where the audio lay."""
    return [replace(instance, source=[]) for instance in timeless(folder)]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=st.integers(0, 6), half=st.booleans(), change=st.sampled_from(CHANGES), name=st.sampled_from(NAMES))
def test_refused_or_as_if_it_had_begun_so(data: Path, kept: int, half: bool, change: Any, name: str) -> None:
    folder = data.parent / "copies" / str(next(NUMBERS))
    shutil.copytree(data, folder / "data")
    shutil.copy(data.parent / "la2.yaml", folder)
    here = folder / "data"
    weights = {"name": "one"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "digest_of_weights", lambda path, options: weights["name"])
        succeeds(*command(here))
        log = folder / "out/instances.log"
        lines = log.read_text().splitlines(keepends=True)
        log.write_text("".join(lines[:kept]) + (lines[kept][:40] if half and kept < 6 else ""))
        before = log.read_text()
        more = change(folder, name)
        if more == ["weights"]:
            weights["name"], more = "other", []
        status, _, error = simulst(*command(here, "out", *more))
        if change in SAME:
            assert status == 0
        if status == 0:
            succeeds(*command(here, "fresh", *more))
            assert without_paths(folder / "out") == without_paths(folder / "fresh")
        else:
            assert "give another --out, or use --force" in error or "is not from this data" in error, error
            assert log.read_text() == before
            succeeds(*command(here, "out", *more, "--force"))
            succeeds(*command(here, "fresh", *more))
            assert timeless(folder / "out") == timeless(folder / "fresh")


@pytest.mark.parametrize("change", [text, audio, pointed_elsewhere, segments, renamed, other_text, configuration])
def test_a_whole_run_of_something_else_is_refused(data: Path, change: Any) -> None:
    """Nothing is left to decode, and still the old scores are not those of the new data."""
    succeeds(*command(data))
    more = change(data.parent, "u3")
    status, _, error = simulst(*command(data, "out", *more))
    assert status == 1 and ("use --force to decode again" in error or "is not from this data" in error)


def test_a_broken_config_of_a_run(data: Path) -> None:
    succeeds(*command(data))
    config = data.parent / "out/config.yaml"
    for broken in (b"label: [", b"\xff\xfe", b"- 1", b"decoding: 3\nlabel: x", b"label: x\ndecoding: {read: 3}", b""):
        config.write_bytes(broken)
        for args in (command(data), ["table", data.parent / "out"]):
            status, _, error = simulst(*args)
            assert status == 1 and "not the config.yaml of a simulst run" in error and "\n" not in error
