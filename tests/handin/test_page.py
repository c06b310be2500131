"""docs/iwslt.md, from a model to a verified hand-in: its commands are run one by one, with a tiny model.

Scripts run in bash, in a copy of the checkout, where `simulst` only notes how it was called. These calls are made
after each block, in this process. Packages are not installed, COMET's scores are not computed, and no server is
started: test_verify.py does that.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fake
import numpy as np
import pages
import pytest
import small
import sounds
import tracked
import yaml
from run_commands import simulst

from simulst.handin import check
from simulst.handin import verify as verification
from simulst.measure import comet
from simulst.models import registry
from simulst.models.base import Family
from simulst.opening import Opening

CANDIDATES = {"read": {"type": "chunk", "ms": [500, 2500]}, "commit": {"type": "all"}}
DOWNLOADED = "facebook/s2t-medium-mustc-multilingual-st"


class Tiny(fake.FakeModel):
    """It writes the same whatever the languages."""

    def session(self, opening: Opening | None = None) -> fake.FakeSession:
        return super().session(fake.opening(opening and opening.meter))


@dataclass(frozen=True)
class NoOptions:
    """The tiny model has none."""


TINY = Family(
    looks_like="a tiny model",
    recognises=lambda path: (path / "tiny").is_file(),
    options=NoOptions,
    load=lambda path, options, cores: Tiny(seed=int((path / "tiny").read_text())),
    files=lambda path, options: (path / "tiny",),
)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recipe with two candidates, and beside it the organisers' folder `mcif`."""
    root = tmp_path / "checkout"
    tracked.copy(root, "egs/iwslt", "local")
    (root / "conf").symlink_to(pages.ROOT / "conf")
    (root / "run.sh").symlink_to(pages.ROOT / "run.sh")
    (root / "egs/iwslt/conf/offline.yaml").write_text(yaml.safe_dump(CANDIDATES))
    for program in (".venv/bin/simulst", ".venv/bin/python", ".venv/bin/hf", "tools/install.sh"):
        (root / program).parent.mkdir(parents=True, exist_ok=True)
        (root / program).write_text(pages.NOTE)
        (root / program).chmod(0o755)
    (root / ".venv/bin/activate").touch()
    audio = {name: np.random.default_rng(seed).uniform(-0.5, 0.5, 64000) for seed, name in enumerate(small.NAMES)}
    rows = [(name, 2.0 * number, 2.0) for name in audio for number in range(2)]
    sounds.write_iwslt(tmp_path / "mcif", audio, rows, dict.fromkeys(("en", "de", "it"), small.TEXTS))
    monkeypatch.setattr(registry, "families", lambda: {"tiny": TINY})
    monkeypatch.setattr(comet, "_ask", lambda model, segments: [0.5 + 0.01 * n for n, _ in enumerate(segments)])
    return root


def in_this_process(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
    """verify.py, and the check that it starts in the environment. There is no Docker."""
    arguments, main = command[1:], verification.main
    if "simulst.handin.check" in command:
        arguments, main = command[command.index("simulst.handin.check") :], check.main  # type: ignore[assignment]
    elif Path(command[1]).name == "verify.py":
        arguments += ["--folder", str(Path(command[1]).parent)]
    else:
        return subprocess.CompletedProcess(command, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", arguments)
        try:
            return subprocess.CompletedProcess(command, main() or 0)
        except SystemExit as ended:
            return subprocess.CompletedProcess(command, int(ended.code or 0))
        finally:
            logging.disable(logging.NOTSET)


def as_packed(folder: Path, image: Any, name: str, *_: Any) -> Path:
    """The log that a server would give."""
    return folder / "systems" / name / check.LOG


@pytest.mark.usefixtures("decoded")
def test_the_page(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, said = [], ""
    for block in pages.blocks("docs/iwslt.md", "sh"):
        for folder, program, *arguments in pages.called(
            block.text.replace("/corpora/", f"{checkout.parent}/"), checkout, checkout / ".venv/bin"
        ):
            monkeypatch.chdir(folder)
            if program == "hf":
                assert arguments[:2] == ["download", DOWNLOADED]
                Path(arguments[3]).mkdir(parents=True)
                (Path(arguments[3]) / "tiny").write_text("3")
                (checkout / "egs/iwslt/S2T_LICENSE").write_text("MIT\n")
            if program == "python" and arguments[0] == "local/prepare_iwslt.py":
                subprocess.run([sys.executable, *arguments], check=True)
                done.append(arguments[0])
            if program != "simulst" or arguments[0] == "report":
                continue
            done.append(arguments[0])
            if arguments[0] == "pack" and Path(arguments[arguments.index("--out") + 1]).exists():
                arguments.append("--force")  # the page shows the recipe's call, and what it calls
            jobs = arguments.index("--jobs") + 1 if "--jobs" in arguments else 0
            if jobs:
                arguments[jobs] = "1"
            with monkeypatch.context() as patch:
                if arguments[0] == "verify":
                    handin = Path(arguments[1]).absolute()
                    small.write_environment(handin.with_name(f"{handin.name}.environment"), handin, again=True)
                    patch.setattr(os, "environ", os.environ.copy())
                    patch.setattr(subprocess, "run", in_this_process)
                    patch.setattr(check, "_by_server", as_packed)
                status, out, error = simulst(*arguments)
            assert not status, f"{arguments}: {out}{error}"
            said += out
    assert done[:2] == ["local/prepare_iwslt.py", "sweep"] and done[-4:] == ["pack", "verify", "pack", "verify"]
    assert {"runs", "choose"} <= {*done} and said.count("all is as claimed") == 2
    packed = checkout / "egs/iwslt/exp/handin"
    directions = {path.name.partition("_")[0] for path in (packed / "systems").iterdir()}
    assert directions == {"en-de", "en-it"}
    chosen = yaml.safe_load(next(iter((checkout / "egs/iwslt/exp/s2t/en-de-mcif/chosen").glob("*.yaml"))).read_text())
    assert "COMET" in chosen["scores"]
