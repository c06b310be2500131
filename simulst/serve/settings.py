"""What a client may choose of the policies: numbers within bounds, and one of four COMMITs. No path, code or model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from simulst.config import TYPES, Decoding
from simulst.errors import SimulstError
from simulst.options import build_options
from simulst.policy.read import Chunk
from simulst.policy.stop import AlignAtt, EndOfSentence

CHUNK_MS, N, FRAMES = (100, 10_000), (1, 20), (0, 500)  # least and most
CommitName = Literal["all", "hold", "local_agreement", "shared_prefix"]
COMMITS = get_args(CommitName)


@dataclass(frozen=True)
class Settings:
    """None: as in the server's configuration.

    chunk_ms: READ's chunk. commit, n: COMMIT and its number. frames: those of AlignAtt; 0: no such STOP.
    """

    chunk_ms: Annotated[float, Field(ge=CHUNK_MS[0], le=CHUNK_MS[1])] | None = None
    commit: CommitName | None = None
    n: Annotated[int, Field(ge=N[0], le=N[1])] | None = None
    frames: Annotated[int, Field(ge=FRAMES[0], le=FRAMES[1])] | None = None


def offered(decoding: Decoding, attention: bool) -> dict[str, dict[str, Any]]:
    """What may be chosen under a configuration: name → the value now, and the choices or the least and the most.

    attention: whether the model shows where it attends, as AlignAtt needs.
    """
    found: dict[str, dict[str, Any]] = {}
    read, commit, stop = decoding.read, decoding.commit, decoding.stop
    if isinstance(read, Chunk):
        found["chunk_ms"] = _number(read.ms, CHUNK_MS)
        name = next((name for name in COMMITS if TYPES["commit"][name] is type(commit)), None)
        if name is not None:
            found["commit"] = {"value": name, "choices": list(COMMITS)}
            found["n"] = _number(getattr(commit, "n", 2), N)
    frames = 0 if isinstance(stop, EndOfSentence) and attention else None
    if isinstance(stop, AlignAtt):
        frames = stop.frames  # None: it counts words
    if frames is not None:
        found["frames"] = _number(frames, FRAMES)
    return found


def chosen(decoding: Decoding, offer: Mapping[str, Mapping[str, Any]], values: Any) -> Decoding:
    """The configuration with what a client has chosen. values: name → value, of what is on offer.

    Raises SimulstError: something else, or out of bounds.
    """
    if not isinstance(values, dict):
        raise SimulstError("the settings are no object of JSON; send names and values.")
    for name in values:
        if name not in offer:
            raise SimulstError(f"this server has no setting '{str(name)[:40]}'; it has {', '.join(offer) or 'none'}.")
    settings = build_options(Settings, values, "settings", "it")
    changes: dict[str, Any] = {}
    if settings.chunk_ms is not None and isinstance(decoding.read, Chunk):
        changes["read"] = dataclasses.replace(decoding.read, ms=float(settings.chunk_ms))
    if settings.commit is not None or settings.n is not None:
        kind = TYPES["commit"][settings.commit or offer["commit"]["value"]]
        counts = kind is not TYPES["commit"]["all"]
        if settings.n is not None and not counts:
            raise SimulstError("the setting 'n' means nothing where COMMIT is 'all'; leave it out.")
        number = {"n": settings.n or offer["n"]["value"]} if counts else {}
        commit = decoding.commit
        new = commit if kind is type(commit) else kind(**number, whole_words=commit.whole_words)  # type: ignore[call-arg]
        changes["commit"] = dataclasses.replace(new, **number)  # type: ignore[type-var]
    if settings.frames is not None:
        stop = decoding.stop if isinstance(decoding.stop, AlignAtt) else AlignAtt(1)
        changes["stop"] = dataclasses.replace(stop, frames=settings.frames) if settings.frames else EndOfSentence()
    return dataclasses.replace(decoding, **changes)


def _number(value: float, bounds: tuple[int, int]) -> dict[str, float]:
    return {"value": value, "least": bounds[0], "most": bounds[1]}
