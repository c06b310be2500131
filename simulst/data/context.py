"""What is known of the recordings of a data directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from simulst.audio.name import recording_name
from simulst.background import NOTHING, known_of, read_backgrounds
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError


def with_backgrounds(utterances: Sequence[Utterance], path: str | Path) -> list[Utterance]:
    """The utterances with what a table says of them. Raises SimulstError: it names none of them; a broken table."""
    known = read_backgrounds(path)
    told = []
    for utterance in utterances:
        own = known_of(known, (utterance.name, recording_name(utterance.wav)))
        told.append(replace(utterance, background=own or NOTHING))
    if told and not any(utterance.background != NOTHING for utterance in told):
        raise SimulstError(f"{path}: names none of the utterances, such as '{told[0].name}'; check its first column.")
    return told
