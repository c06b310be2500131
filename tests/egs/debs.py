"""Debian packages made for tests."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

CONTROL = b"Package: x\nVersion: 1\nArchitecture: all\nMaintainer: nobody <a@b>\nDescription: test\n"


def deb(path: Path, files: dict[str, bytes], compression: str = "xz") -> None:
    """A Debian package with these files."""
    tars = {}
    for name, content in {"control.tar": {"control": CONTROL}, "data.tar": files}.items():
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as tar:
            for file, data in content.items():
                info = tarfile.TarInfo(f"./{file}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        tars[f"{name}.{compression}"] = buffer.getvalue()
    with path.open("wb") as out:
        out.write(b"!<arch>\n")
        for member, data in {"debian-binary": b"2.0\n", **tars}.items():
            out.write(f"{member:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode())
            out.write(data + b"\n" * (len(data) % 2))
