"""Running a recipe as a user does."""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import tracked
import warm

ROOT = Path(__file__).parents[2]
EGS = ROOT / "egs"
SCRIPTS = sorted(
    str(path.relative_to(EGS)).removesuffix(".sh").removesuffix("/run")
    for path in tracked.files("egs/*/*.sh", "egs/*/extras/*.sh")
    if os.access(path, os.X_OK)
)
TINY = (
    "--encoder_conf num_blocks=2 --encoder_conf output_size=32 --encoder_conf linear_units=64 "
    "--decoder_conf linear_units=64 --decoder_conf num_blocks=1"
)
SHORT = "--batch_bins 500000 --use_matplotlib false --max_epoch"
SWEEP = """
- {read: {type: offline}, commit: {type: all}, search: {type: joint_beam, beam: 2}}
- {read: {type: block}, commit: {type: hold, n: 2}, search: {type: ibwbs, beam: 2}}
"""
LABELS = ["hold-2_IBWBS-beam2_1block", "offline_beam2"]


def script(name: str, root: Path = ROOT) -> Path:
    """The file of a script that `./run.sh --recipe NAME` runs."""
    return root / "egs" / (f"{name}.sh" if "/" in name else f"{name}/run.sh")


def call(root: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a script of a checkout in the warm process. command: its name and options, as in a shell."""
    name, *options = shlex.split(command)
    program = [str(script(name, root)), *options]
    return subprocess.run(program, capture_output=True, text=True, env=warm.environment())


@functools.cache
def shown(command: str, root: Path = ROOT) -> str:
    """What --help all prints of a script with these options."""
    done = call(root, f"{command} --help all")
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def start(command: str, folder: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A script with everything that it writes in `folder`, in a process group of its own."""
    (folder / "sweep.yaml").write_text(SWEEP)
    if "--decodings" not in command:
        command += f" --decodings {folder}/sweep.yaml"
    name, *options = shlex.split(f"{command} --data {folder}/data --exp {folder}/exp --jobs 1")
    return subprocess.Popen(
        [str(script(name)), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment or {**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def run(command: str, folder: Path) -> str:
    """Run it to its end in the warm process; returns what it printed."""
    process = start(command, folder, warm.environment())
    output, _ = process.communicate()
    assert process.returncode == 0, output
    return output
