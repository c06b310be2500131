"""A run that was interrupted anywhere, and of which something was changed: refused, or as if it had begun so."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import waiting
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_commands import COUNT, LA2, command, options, sentence, simulst, timeless

from simulst.log import read_log
from simulst.log.instance import Instance
from simulst.runs import decode

NAMES = [f"u{i}" for i in range(6)]


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


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
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


def test_killed_and_resumed(data: Path) -> None:
    note, log = data.parent / "note", data.parent / "out" / "instances.log"
    gate = data.parent / "gate"
    args = [str(a) for a in command(data, "out", *options(log=note, gate=gate, gate_from=2))]
    with waiting.closed(gate):
        process = subprocess.Popen([sys.executable, "-m", "simulst", *args], stderr=subprocess.DEVNULL)
        waiting.until(lambda: note.is_file() and len(note.read_text().split()) == 3, data.parent, process)
        process.kill()
        assert process.wait() == -9
    done = [instance.name for instance in read_log(log)]
    assert len(done) == 2
    with log.open("a") as file:
        file.write('{"index": 5, "predic')  # what a kill in the middle of writing would leave
    assert simulst(*args)[0] == 0
    begun = Counter(note.read_text().split())
    assert all(begun[name.removeprefix("u")] == 1 for name in done)
    assert set(begun) == {str(i) for i in range(COUNT)} and begun.total() <= COUNT + 1
    assert simulst(*command(data, "whole"))[0] == 0
    assert timeless(data.parent / "out") == timeless(data.parent / "whole")


def test_force_deletes_nothing_before_the_model_is_open(data: Path) -> None:
    assert simulst(*command(data, "out"))[0] == 0
    log, scores = (data.parent / "out" / name for name in ("instances.log", "scores.json"))
    before = log.read_text(), scores.read_text()
    status, _, error = simulst(*command(data, "out", "--force", model="gone"))
    assert status == 1 and "gone" in sentence(error)
    assert (log.read_text(), scores.read_text()) == before


@pytest.mark.parametrize("more", ["", ", whole_words: true"])
def test_a_policy_of_the_users_that_changed_is_noticed(data: Path, monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    monkeypatch.delitem(sys.modules, "mine_alone", raising=False)  # the other case's file
    code = data.parent / "mine_alone.py"
    code.write_text(
        "from dataclasses import dataclass\nfrom typing import Any\nfrom simulst.policy.commit import All\n"
        "@dataclass(frozen=True)\nclass Mine(All):\n    detector: Any = None\n"
    )
    monkeypatch.syspath_prepend(str(data.parent))
    text = "read: {type: chunk, ms: 500}\ncommit: {type: mine_alone:Mine, detector: {type: silero.v4}" + more + "}\n"
    (data.parent / "la2.yaml").write_text(text)
    assert simulst(*command(data, "out"))[0] == 0
    assert simulst(*command(data, "out"))[0] == 0
    code.write_text(code.read_text() + "# other\n")
    status, _, error = simulst(*command(data, "out"))
    assert status == 1 and "another version of your policy under the same name" in sentence(error)
    assert simulst(*command(data, "out", "--force"))[0] == 0


def test_a_full_disk_keeps_what_is_whole(data: Path, small_disk: Path) -> None:
    assert simulst(*command(data, "whole"))[0] == 0
    whole = timeless(data.parent / "whole")
    filler = small_disk / "filler"
    full = set()
    for pages in range(6):
        out = small_disk / f"out{pages}"
        args = command(data, str(out))
        filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - pages * 4096))
        status, _, error = simulst(*args)
        if status:
            file, _, rest = sentence(error).partition(": ")
            assert rest.startswith("cannot be written (No space left on device); fix that and run the same command")
            full.add(Path(file).name)
            assert not list(out.rglob("*.part"))
        filler.unlink()
        assert simulst(*args)[0] == 0
        assert timeless(out) == whole
    assert {"config.yaml", "instances.log"} <= full
