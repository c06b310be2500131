"""Makes tests/fake.py importable here and in worker processes; fixtures of several tests."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(HERE).parent), HERE, os.environ.get("PYTHONPATH", "")]).rstrip(":")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB, where mounting is allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("mount is not allowed")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)
