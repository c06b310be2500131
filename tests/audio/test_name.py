"""Names of recordings."""

from pathlib import Path

import pytest

from simulst.audio.name import recording_name


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/data/talk.wav", "talk"),
        ("talk.MP3", "talk"),
        ("talk", "talk"),
        ("a.b/talk.m4a", "talk"),
        ("2022.acl-long.268", "2022.acl-long.268"),
        ("x/2022.acl-long.268.wav", "2022.acl-long.268"),
        ("talk.v2", "talk.v2"),
        ("talk.de.flac", "talk.de"),
        (".wav", ".wav"),
        ("", ""),
    ],
)
def test_only_suffixes_of_audio_are_cut(source: str, name: str) -> None:
    assert recording_name(source) == recording_name(Path(source)) == name
