"""Open a stream through a model: as one utterance, or cut at its pauses, as the configuration says."""

from __future__ import annotations

from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.languages import unit_of
from simulst.longform.pauses import SegmentedStream
from simulst.meter import Meter
from simulst.models.base import Model, Session
from simulst.stream import Stream

AnyStream = Stream | SegmentedStream


def open_stream(
    model: Model, decoding: Decoding, source: str, target: str, unit: str = "", meter: Meter | None = None
) -> AnyStream:
    """A new stream of speech in the language `source`, to be translated into `target`.

    unit: what is written at once, "word" or "char"; empty: as the target language is written. meter: the stream's
    clock, through which it may share work with others.
    Raises SimulstError: a language pair or a configuration that the model can't do.
    """
    meter = meter or Meter()
    unit = unit or unit_of(target)

    def open_session(part: Meter) -> Session:
        session = model.session(source, target, part)
        if not isinstance(session, Session):
            raise SimulstError(
                f"{type(session).__name__}: not a session; derive your class from simulst.models.base.Session."
            )
        return session

    if decoding.segment.pause_seconds:
        return SegmentedStream(open_session, decoding, unit, meter)
    return Stream(open_session(meter), decoding, unit)
