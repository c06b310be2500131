"""Running a recipe as a user does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import warm

EGS = Path(__file__).parents[2] / "egs"
TINY = (
    "--encoder_conf num_blocks=2 --encoder_conf output_size=32 --encoder_conf linear_units=64 "
    "--decoder_conf linear_units=64 --decoder_conf num_blocks=1"
)
SWEEP = """
- {read: {type: offline}, commit: {type: all}, search: {type: joint_beam, beam: 2}}
- {read: {type: block}, commit: {type: hold, n: 2}, search: {type: ibwbs, beam: 2}}
"""
LABELS = ["hold-2_IBWBS-beam2_1block", "offline_beam2"]


def script(name: str) -> Path:
    """The file of a script that `./run.sh --recipe NAME` runs."""
    return EGS / f"{name}.sh" if "/" in name else EGS / name / "run.sh"


def start(
    name: str, folder: Path, options: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """A script with everything that it writes in `folder`, in a process group of its own."""
    (folder / "sweep.yaml").write_text(SWEEP)
    command = [str(script(name)), "--data", str(folder / "data"), "--exp", str(folder / "exp"), "--jobs", "1"]
    if "--decodings" not in options:
        command += ["--decodings", str(folder / "sweep.yaml")]
    return subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment or {**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def run(name: str, folder: Path, options: Sequence[str]) -> str:
    """Run it to its end in the warm process; returns what it printed."""
    process = start(name, folder, options, warm.environment())
    output, _ = process.communicate()
    assert process.returncode == 0, output
    return output
