"""One run at a time in a folder."""

import os
from pathlib import Path

import pytest

from simulst.errors import SimulstError
from simulst.files.lock import locked


def test_only_one_holds_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    with locked(folder):
        with pytest.raises(SimulstError, match="another run is at work"), locked(folder):
            pass
        with locked(tmp_path / "other"), locked(folder, tmp_path / "elsewhere.lock"):
            pass
    with locked(folder):
        pass
    assert not list(tmp_path.rglob("*lock"))


def test_a_lock_removed_by_its_holder_is_not_held_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One opens the lock file, another removes it before it is locked: a file without a name holds nothing."""
    real, removed = os.open, []

    def remove_behind(path: Path, *rest: int) -> int:
        descriptor = real(path, *rest)
        if not removed:
            removed.append(path)
            os.unlink(path)
        return descriptor

    monkeypatch.setattr(os, "open", remove_behind)
    with locked(tmp_path):
        monkeypatch.undo()
        with pytest.raises(SimulstError), locked(tmp_path):
            pass
    assert removed
