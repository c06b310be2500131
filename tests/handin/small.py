"""Two short recordings, runs over them, and what `simulst choose --out` makes of these, if the scorers are there."""

from __future__ import annotations

import hashlib
import re
import stat
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import yaml
from run_commands import simulst

from simulst.data.datadir import write_data_dir
from simulst.files.folder import sha256_of
from simulst.handin.interface import kept_port
from simulst.handin.verify import REQUIREMENTS, SUMS

for package in ("simulstream", "omnisteval", "mweralign"):
    pytest.importorskip(package)
NAMES = ("2022.acl-long.268", "talk1")
SIZES = (40000, 56000)
TEXTS = ("the cat sat", "on the mat", "unbelievable café", "the cat")
LA2 = {"read": {"type": "chunk", "ms": 500}, "commit": {"type": "local_agreement", "n": 2}}
FAKE = "fake:FakeModel"


def write_recordings(folder: Path, names: tuple[str, ...] = NAMES) -> Path:
    """A data directory with the recordings, of two sentences each; its folder has talks.yaml and talks.en."""
    data = folder / "data"
    noise = np.random.default_rng(0)
    scp, texts, segments = {}, {}, []
    for number, (name, size) in enumerate(zip(names, SIZES, strict=True)):
        data.mkdir(parents=True, exist_ok=True)
        soundfile.write(data / f"{name}.wav", noise.uniform(-0.5, 0.5, size), 16000, subtype="PCM_16")
        key = f"u{number}"
        scp[key], texts[key] = f"{name}.wav", " ".join(TEXTS[2 * number : 2 * number + 2])
        half = size / 32000
        segments += [{"wav": f"{name}.wav", "offset": n * half, "duration": half} for n in range(2)]
    write_data_dir(data, {"wav.scp": scp, "text.en": texts})
    (folder / "talks.yaml").write_text(yaml.safe_dump(segments))
    (folder / "talks.en").write_text("".join(f"{text}\n" for text in TEXTS))
    return data


def chosen(
    folder: Path,
    name: str,
    model: str | Path,
    regime: str,
    options: Mapping[str, Any] | None = None,
    decoding: Mapping[str, Any] | None = None,
) -> Path:
    """Decode the recordings of a folder (`write_recordings`), and choose the only run. Returns the choice's file."""
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(dict(decoding or LA2)))
    more = [part for key, value in (options or {}).items() for part in ("--model-option", f"{key}={value}")]
    common = ["--model", model, "--source-lang", "es", "--target-lang", "en", *more]
    run = folder / "runs" / name
    status, _, error = simulst("evaluate", "--decoding", file, "--data", folder / "data", "--out", run, *common)
    assert not status, error
    files = ["--segmentation", folder / "talks.yaml", "--references", folder / "talks.en"]
    out = folder / "choices" / name
    for command in (["score", run], ["choose", run, "--metric", "LongYAAL", "--regimes", regime, "--out", out]):
        status, _, error = simulst(*command, *files, *(["--target-lang", "en"] if command[0] == "score" else []))
        assert not status, error
    [choice] = out.glob("*.yaml")
    return choice


def write_environment(place: Path, folder: Path, again: bool = False) -> Path:
    """An environment in which this Python has all that the folder wants. again: it may be there."""
    (place / "bin").mkdir(parents=True, exist_ok=again)
    python = place / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    # With what is compiled already: verify.py has Python keep it in this folder.
    wanted = "".join((folder / name).read_text() for name in REQUIREMENTS)
    for name in re.findall(r"^([\w.-]+)==", wanted, flags=re.MULTILINE):
        for file in (str(path.locate()) for path in metadata.files(name) or [] if path.suffix == ".pyc"):
            kept = place / "compiled" / Path(file.replace("__pycache__/", "")).relative_to("/")
            kept.parent.mkdir(parents=True, exist_ok=True)
            if not kept.is_symlink():
                kept.symlink_to(file)
    wanted = hashlib.sha256(b"".join((folder / name).read_bytes() for name in REQUIREMENTS)).hexdigest()
    (place / ".installed").write_text(wanted)
    return place


def free_port() -> int:
    with kept_port() as port:
        return port


def sum_again(folder: Path) -> None:
    """Write the digests of the files as they are: a fault that they do not tell must show all the same."""
    names = [line.partition("  ")[2] for line in (folder / SUMS).read_text().splitlines()]
    (folder / SUMS).write_text("".join(f"{sha256_of(folder / name)}  {name}\n" for name in names))
