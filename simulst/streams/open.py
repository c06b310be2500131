"""Open a stream. The configuration says whether it is one utterance or is cut at its pauses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from simulst.background import NOTHING, Background
from simulst.config import Decoding
from simulst.errors import SimulstError, reason_of
from simulst.languages import AUTO, unit_of
from simulst.meter import Meter
from simulst.models import load_model
from simulst.models.base import heard, tells
from simulst.opening import Opening
from simulst.policy.late import Pace
from simulst.session import Model, Session
from simulst.stream import OpenStream, Step, Stream
from simulst.streams.auto import AutoStream
from simulst.streams.pauses import SegmentedStream


def open_stream(
    model: Model,
    decoding: Decoding,
    source: str,
    target: str,
    unit: str = "",
    meter: Meter | None = None,
    background: Background = NOTHING,
    timed: bool = False,
    watch: Callable[[Step], None] | None = None,
    names: tuple[str, ...] = (),
    among: Sequence[str] = (),
) -> OpenStream:
    """Open a stream of speech in the language `source` that is translated into `target`.

    If the source is `auto`, the model tells which language it hears (see auto.py).

    model: the loaded model.
    decoding: the policies and the search.
    source: language spoken, such as "es", or "auto".
    target: language written, such as "en".
    unit: what is written at once, "word" or "char". Empty: the usual unit of the target language.
    meter: the stream's clock. Streams whose meters share a memo share work.
    background: what is known of the recording.
    timed: whether the stream is asked for its `spoken_ms`.
    watch: is called after each decoding step with what it found and decided.
    names: of the utterance, such as that of its recording; empty: not known. A stream that is cut does not tell them.
    among: the languages that `auto` may find; empty: all that the model writes the target from.

    Raises SimulstError: the model does not have this language pair, or can't run this configuration; any error of a
        policy or model of one's own.
    """
    meter = meter or Meter()
    unit = unit or unit_of(target)
    cuts = decoding.segment.seconds > 0
    if source == AUTO:

        def open_language(language: str, part: Meter, begin_ms: float) -> OpenStream:
            def told(step: Step) -> None:
                if watch is not None:
                    watch(replace(step, read_ms=begin_ms + step.read_ms))

            seen = None if watch is None else told
            return open_stream(model, decoding, language, target, unit, part, background, timed, seen)

        return AutoStream(tells(model), among or heard(model, target), open_language, unit, meter, cuts, timed)

    known = background.between(source, target)

    def open_part(part: Meter, history: str = "", pace: Pace | None = None, begin_ms: float = 0.0) -> Stream:
        restarts = decoding.segment.restart
        session = model.session(Opening(source, target, part, known, history, restarts, () if cuts else names))
        if not isinstance(session, Session):
            raise SimulstError(
                f"{type(session).__name__} is not a session; derive the class from simulst.session.Session."
            )
        return Stream(
            session, decoding, unit, pace=pace, begin_ms=begin_ms, load_model=load_model, timed=timed, watch=watch
        )

    try:
        return SegmentedStream(open_part, decoding.segment, unit, meter) if cuts else open_part(meter)
    except SimulstError:
        raise
    except Exception as error:  # of a model or policy that a user brought
        raise SimulstError(f"the stream cannot be opened ({reason_of(error)}).") from error


def skipped_steps(stream: OpenStream) -> str:
    """A sentence that says how many decoding steps were left out (LATE), and what to do. Empty: none were."""
    if not stream.skipped:
        return ""
    return (
        f"the machine is too slow: {stream.skipped} of {stream.skipped + len(stream.reads)} decoding steps were left "
        "out; give longer chunks, a smaller model or a smaller beam."
    )
