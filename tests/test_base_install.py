"""What an installation without extras does. The packages of extras are hidden, as if they were not installed."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_whisper
from packaging.requirements import Requirement

from simulst.audio.read import write_wav

pytestmark = pytest.mark.long
LANGUAGES = ("--source-lang", "es", "--target-lang", "en")
ROOT = Path(__file__).resolve().parents[1]
RUN = """
import importlib.abc, json, sys
names = set(json.loads(sys.argv.pop(1)))
class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
from simulst.commands.main import entry
entry()
"""


def direct_needs() -> list[str]:
    """install_requires of setup.py."""
    call = ast.parse((ROOT / "setup.py").read_text()).body[-1].value  # type: ignore[attr-defined]
    return next(ast.literal_eval(given.value) for given in call.keywords if given.arg == "install_requires")


def hidden() -> list[str]:
    """The modules of all installed packages that simulst does not need, nor what it needs."""
    needed, new = set(), {*direct_needs()}
    while new:
        name = new.pop().lower().replace("_", "-")
        needed.add(name)
        requirements = map(Requirement, importlib.metadata.requires(name) or ())
        here = {one.name.lower().replace("_", "-") for one in requirements if not one.marker or one.marker.evaluate()}
        new |= here - needed
    providers = importlib.metadata.packages_distributions().items()
    return [
        module
        for module, packages in providers
        if module != "simulst" and not needed & {package.lower().replace("_", "-") for package in packages}
    ]


@pytest.fixture(scope="module")
def names() -> str:
    return json.dumps(hidden())


def simulst(names: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, names, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def test_it_needs_ten_packages_and_no_large_ones(names: str) -> None:
    assert len(direct_needs()) <= 10
    assert {"torch", "numba", "librosa", "scipy", "av", "jiwer", "sacremoses", "transformers"} <= {*json.loads(names)}


def test_it_translates_and_scores(names: str, tmp_path: Path) -> None:
    tiny_whisper.write(tmp_path / "model", eos=6)
    (tmp_path / "data").mkdir()
    write_wav(tmp_path / "data/a.wav", np.random.default_rng(0).uniform(-0.3, 0.3, 30_000).astype(np.float32))
    for name, value in (("wav.scp", "a.wav"), ("utt2spk", "s"), ("text.en", "the cat")):
        (tmp_path / "data" / name).write_text(f"a {value}\n")
    (tmp_path / "decoding.yaml").write_text("read: {type: chunk, ms: 700}\ncommit: {type: hold, n: 2}\n")
    with_model = ["--model", "model", *LANGUAGES, "--decoding", "decoding.yaml"]
    done = simulst(names, tmp_path, "translate", "data/a.wav", *with_model)
    assert done.returncode == 0 and done.stdout.startswith("   "), done.stderr
    done = simulst(names, tmp_path, "evaluate", "--data", "data", "--out", "run", *with_model)
    assert done.returncode == 0 and "BLEU" in done.stdout, done.stderr
    done = simulst(names, tmp_path, "score", "run")
    assert done.returncode == 0 and "LAAL" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "package"),
    [
        (["translate", "a.wav", "--model", "huggingface", *LANGUAGES], "torch"),
        (["translate", "a.m4a", "--model", "whisper", *LANGUAGES], "av"),
        (
            ["translate", "a.wav", "--model", "whisper", "--source-lang", "es", "--target-lang", "en"],
            "silero-vad torch",
        ),
        (["serve", "--model", "whisper"], "aiohttp"),
    ],
)
def test_it_says_which_package_is_missing(arguments: list[str], package: str, names: str, tmp_path: Path) -> None:
    tiny_whisper.write(tmp_path / "whisper")
    (tmp_path / "huggingface").mkdir()
    (tmp_path / "huggingface/config.json").write_text('{"model_type": "whisper"}')
    (tmp_path / "huggingface/model.safetensors").touch()
    (tmp_path / "a.m4a").write_bytes(b"\0\0\0\x18ftypM4A " + bytes(99))
    write_wav(tmp_path / "a.wav", np.zeros(640_000, np.float32))
    done = simulst(names, tmp_path, *arguments)
    assert done.returncode == 1 and f"pip install {package}" in done.stderr and "Traceback" not in done.stderr
