"""The name of a recording, by which logs, segmentations and tables find each other."""

from __future__ import annotations

from pathlib import Path

_SOUND = "aac ac3 aif aifc aiff amr au caf flac gsm m4a mka mp2 mp3 oga ogg opus pcm raw snd sph wav wave wma wv"
_FILM = "3gp avi m4v mkv mov mp4 mpeg mpg ogv ts webm wmv"
SUFFIXES = frozenset(f".{name}" for name in f"{_SOUND} {_FILM}".split())


def recording_name(source: str | Path) -> str:
    """The name of an audio file, without its folder and the suffix of a kind of audio or video.

    Other parts after a point belong to the name: "2022.acl-long.268" and "2022.acl-long.367" are two recordings.
    """
    path = Path(source)
    return path.stem if path.suffix.lower() in SUFFIXES else path.name
