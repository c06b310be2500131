"""Digests of files, and one run at a time in a folder."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from simulst.errors import SimulstError
from simulst.files.folder import digest_of_file, digest_of_files, digest_of_texts, locked, sha256_of


def test_digests(tmp_path: Path) -> None:
    """Runs and trainings have stored them, so their values may not change."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"1")
    other.write_bytes(b"22")
    first, second = (hashlib.sha256(text).hexdigest() for text in (b"1", b"22"))
    assert sha256_of(one) == first and digest_of_file(other) == second[:16]
    both = hashlib.sha256(bytes.fromhex(first) + bytes.fromhex(second)).hexdigest()[:16]
    assert digest_of_files([one, other]) == both != digest_of_files([other, one])
    assert digest_of_texts([one, tmp_path / "gone"]) == hashlib.sha256(b"1\n\n").hexdigest()[:16]
    one.write_bytes(b"333")
    assert digest_of_files([one, other]) != both
    with pytest.raises(SimulstError, match=r"gone: cannot be read \(No such file or directory\); check wav\.scp\."):
        sha256_of(tmp_path / "gone", "check wav.scp")


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
