"""The scene that every case begins with."""

import shutil
from collections.abc import Callable
from pathlib import Path

import good
import pytest
from cases import Case


@pytest.fixture(scope="session")
def all_good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good data, models, configurations and runs (good.py)."""
    folder = tmp_path_factory.mktemp("good")
    good.write(folder)
    return folder


@pytest.fixture
def scene(all_good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to break, and the current folder. What is large are links, which `cases.Change` makes copies of."""
    here = tmp_path / "scene"
    here.mkdir()
    for path in all_good.iterdir():
        if path.name in good.SHARED:
            (here / path.name).symlink_to(path)
        elif path.is_dir():
            shutil.copytree(path, here / path.name)
        else:
            shutil.copy(path, here)
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(here)  # for classes of one's own
    return here


@pytest.fixture
def check(scene: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[[Case], None]:
    """Runs a case in the scene."""
    caplog.set_level("WARNING")  # whatever an earlier test has done to the logs
    return lambda case: case.check(capfd, caplog)
