"""Digests of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from simulst.errors import SimulstError
from simulst.files.folder import digest_of_file, digest_of_files, digest_of_texts, sha256_of


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
