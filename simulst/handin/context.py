"""What is known of recordings, in a hand-in: simulstream tells no names, so a line is found by the audio."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simulst.audio.heard import digest_of_beginning
from simulst.audio.read import load_audio
from simulst.background import ALL, read_known, table_of_backgrounds
from simulst.errors import SimulstError


def write_context(
    part: Path, system: str, context: Path, recordings: Mapping[str, Path], simuleval: bool
) -> dict[str, str]:
    """Write a system's table; returns what its processor's configuration says of it.

    Lines of the development recordings get their digest; others must have one. simuleval: SimulEval's agent, which
    knows the line of all recordings alone, is packed, too.

    Raises SimulstError: a broken table; a line without digest; lines that SimulEval's agent can't use.
    """
    known = read_known(context)
    names = {id(background): name for name, background in known.by_name.items()}
    audio = {names[id(background)]: digest for digest, background in known.by_audio.items()}
    own = [name for name in known.by_name if name != ALL]
    if own and simuleval:
        raise SimulstError(f"{context}: SimulEval's agent can't tell recordings apart; leave --simuleval out.")
    for name in own:
        if name not in audio and name not in recordings:
            raise SimulstError(
                f"{context}: {name} is no development recording, and has no digest of its audio; remove its line, or "
                "let egs/iwslt/local/prepare_iwslt.py write the table."
            )
        audio[name] = audio.get(name) or digest_of_beginning(load_audio(recordings[name]))
    place = Path("systems", system, "context.tsv")
    (part / place).parent.mkdir(parents=True, exist_ok=True)
    (part / place).write_text(table_of_backgrounds(known.by_name, audio), encoding="utf-8")
    return {"context": str(place), "context_by": "audio" if own else "all"}
