"""The name of a recording, by which logs, segmentations and tables find each other."""

from __future__ import annotations

import os
import unicodedata
from functools import lru_cache
from pathlib import Path

from simulst.errors import SimulstError

_SOUND = "aac ac3 aif aifc aiff amr au caf flac gsm m4a mka mp2 mp3 oga ogg opus pcm raw snd sph wav wave wma wv"
_FILM = "3gp avi m4v mkv mov mp4 mpeg mpg ogv ts webm wmv"
SUFFIXES = frozenset(f".{name}" for name in f"{_SOUND} {_FILM}".split())


def recording_name(source: str | Path) -> str:
    """The name of an audio file, without its folder and the suffix of a kind of audio or video.

    Other parts after a point belong to the name: "2022.acl-long.268" and "2022.acl-long.367" are two recordings.
    """
    path = Path(source)
    return plain_name(path.stem if path.suffix.lower() in SUFFIXES else path.name)


def plain_name(name: str) -> str:
    """A file's name as it can be compared and written: in NFC, and with U+FFFD for bytes that are no UTF-8."""
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "replace"))


def file_of(path: Path) -> Path:
    """The file of this path, or else the one whose path differs in Unicode's normal form only, as on another system."""
    if str(path).isascii() or os.path.exists(path):
        return path
    folder = file_of(path.parent)
    try:
        return folder / _files(folder, folder.stat().st_mtime_ns).get(plain_name(path.name), path.name)
    except (OSError, ValueError):
        return path


@lru_cache(maxsize=8)
def _files(folder: Path, changed: int) -> dict[str, str]:
    """The names in a folder, by how they can be compared. changed: the folder's time."""
    return {plain_name(name): name for name in sorted(os.listdir(folder))}


def recordings_in(folder: Path) -> list[Path]:
    """The audio files and films of a folder, by name. Raises SimulstError: there is no folder, or none in it."""
    if not folder.is_dir():
        raise SimulstError(f"{folder}: no such folder; name one with recordings.")
    found = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in SUFFIXES and path.is_file()]
    if found := [path for path in found if not path.name.startswith(".")]:
        return found
    raise SimulstError(f"{folder}: has no recordings, such as .wav, .flac, .mp3, .m4a or .mp4; name another folder.")


def apart(first: object, second: object) -> tuple[str, str]:
    """Two different names for a message; with escapes if they look alike."""
    names = str(first), str(second)
    alike = len({unicodedata.normalize("NFKC", name).casefold().strip() for name in names}) < 2
    return (ascii(names[0]), ascii(names[1])) if alike or not all(map(str.isprintable, names)) else names
