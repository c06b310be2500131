"""What READ, STOP and COMMIT decided in an utterance: it is decoded again, as its run's log has only words and times.

That takes the run's model, the files of its policies and the audio, all as they were. What is missing is told in a
sentence; the words and times of the log are shown in any case.
"""

from __future__ import annotations

import base64
import io
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulst.audio.read import as_int16, load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.config import Decoding, parse_decoding
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError, sentence_of
from simulst.log.instance import Instance
from simulst.models import digest_of_part, digest_of_weights, is_name
from simulst.policy.commit import SharedPrefix
from simulst.runs import RunConfig, instance_of, model_of, names_of
from simulst.runs.folder import audio_digest
from simulst.session import Model
from simulst.stream import Step
from simulst.streams import open_stream
from simulst.words import completed_by

logger = logging.getLogger(__name__)

STRETCHES = 900  # of audio, for the picture of its loudness
BIT_RATE = 32_000  # of the audio in the page


@dataclass(frozen=True)
class Decision:
    """A decoding step. at_ms: source read. stop: whether STOP ended the search, None if it was not asked; why: its
    words. beams: the hypotheses that COMMIT looked at, latest step last, best first, less what was written before.
    agreed: how much of the last best one COMMIT found stable, in characters. new: the text that was committed.
    """

    at_ms: float
    final: bool
    stop: bool | None
    why: str
    before: str
    beams: tuple[tuple[str, ...], ...]
    agreed: int
    new: str


@dataclass(frozen=True)
class Trace:
    """What is known of an utterance beside its log. spoken: for each word of the log, its first and last ms."""

    decisions: tuple[Decision, ...] = ()
    spoken: tuple[tuple[float, float], ...] = ()
    audio: str = ""
    loudness: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class Traces:
    """Decodes utterances of a run again. note: why it can't, a sentence; empty: it can."""

    config: RunConfig
    model: Model | None = None
    decoding: Decoding | None = None
    note: str = ""

    def of(self, instance: Instance) -> Trace:
        """The trace of an utterance, as far as it can be told."""
        try:
            utterance = _utterance_of(instance)
            samples = load_audio(utterance.wav, utterance.start, utterance.end)
        except SimulstError as error:
            return Trace(notes=(f"Without audio: {error}",))
        heard = Trace(audio=_as_uri(samples), loudness=_loudness(samples))
        if self.model is None or self.decoding is None:
            return heard
        try:
            return self._decoded(self.model, self.decoding, instance, utterance, samples, heard)
        except Exception as error:  # of any kind, as a model of one's own may raise it
            return Trace(
                audio=heard.audio, loudness=heard.loudness, notes=(f"Not decoded again: {sentence_of(error)}",)
            )

    def _decoded(
        self,
        model: Model,
        decoding: Decoding,
        instance: Instance,
        utterance: Utterance,
        samples: np.ndarray,
        heard: Trace,
    ) -> Trace:
        task, steps = self.config.task, list[Step]()
        languages, names = (task.source_language, task.target_language), names_of(utterance)
        stream = open_stream(model, decoding, *languages, task.unit, timed=True, watch=steps.append, names=names)
        stream.push(samples, finished=True)
        again = instance_of(stream, utterance, instance.index, instance.source_length)
        if again.prediction != instance.prediction or again.delays != instance.delays:
            what = "other words" if again.prediction != instance.prediction else "the same words at other times"
            note = f"Decoded again, it has {what} than in the log, so its decisions are not shown."
            return Trace(audio=heard.audio, loudness=heard.loudness, notes=(note,))
        spoken: tuple[tuple[float, float], ...] = ()
        if (times := stream.spoken_ms) is not None:
            last = completed_by([emission.text for emission in stream.emissions], stream.unit)
            firsts = [0, *(number + 1 for number in last[:-1])]
            spoken = tuple((times[min(a, b)][0], times[b][1]) for a, b in zip(firsts, last, strict=True))
        all_count = isinstance(decoding.commit, SharedPrefix)
        decided = tuple(_decision(step, all_count) for step in steps)
        return Trace(decided, spoken, heard.audio, heard.loudness)


def open_traces(folder: Path, config: RunConfig) -> Traces:
    """What decodes utterances of a run again."""
    task = config.task
    if config.context:
        return Traces(config, note="The run was told of its recordings by --context, which its folder has not.")
    if not task.model:
        return Traces(config, note="The run does not name its model, so no decisions are shown.")
    if not is_name(task.model) and not Path(task.model).exists():
        return Traces(config, note=f"The run's model {task.model} is not here, so no decisions are shown.")
    try:
        wrong = _changed(config)
        if wrong:
            return Traces(config, note=f"{wrong} since the run, so no decisions are shown.")
        return Traces(config, model_of(task, 1), parse_decoding(config.decoding, str(folder)))
    except Exception as error:  # as above
        return Traces(config, note=f"No decisions are shown: {sentence_of(error)}")


def _changed(config: RunConfig) -> str:
    if config.weights and digest_of_weights(config.task.model, dict(config.task.options)) != config.weights:
        return "The model has changed"
    for path, digest in config.files.items():
        if not Path(path).exists() or digest_of_part(path) != digest:
            return f"{path} is gone or has changed"
    return ""


def _utterance_of(instance: Instance) -> Utterance:
    """The utterance as its run read it. Raises SimulstError: its audio is not there, or is another."""
    source = instance.source[0] if isinstance(instance.source, list) and instance.source else instance.source
    if not isinstance(source, str) or not Path(source).is_file():
        raise SimulstError(f"{source}: no such file.")
    span = [*instance.span, None, None][:2]
    utterance = Utterance(instance.name, Path(source), instance.reference or "", span[0] or 0.0, span[1])
    if instance.audio and audio_digest(utterance) != instance.audio:
        raise SimulstError(f"{source}: has changed since the run, or the log does not tell which part of it was heard.")
    return utterance


def _decision(step: Step, all_count: bool) -> Decision:
    """all_count: whether COMMIT looks at all hypotheses of a beam, not only at the best one."""
    before = step.before
    beams = tuple(
        tuple(dict.fromkeys(_after(before, text) for text in (beam if all_count else beam[:1]))) for beam in step.beams
    )
    return Decision(
        round(step.read_ms, 1),
        step.final,
        step.stopped,
        step.why,
        before,
        beams,
        max(0, len(step.stable) - len(before)),
        _after(before, step.after),
    )


def _after(before: str, text: str) -> str:
    return text[len(before) :] if text.startswith(before) else text


def _loudness(samples: np.ndarray) -> tuple[int, ...]:
    """The peak of each of `STRETCHES` equal stretches, 0 to 100, where 100 is the loudest."""
    stretches = np.array_split(np.abs(samples), min(STRETCHES, max(1, samples.size)))
    peaks = np.array([float(stretch.max(initial=0.0)) for stretch in stretches])
    return tuple(int(peak) for peak in np.round(100 * peaks / max(float(peaks.max()), 1e-9)))


def _as_uri(samples: np.ndarray) -> str:
    """The audio as MP3, which all browsers play, in a data URI. samples: (n,) float32 at 16 kHz."""
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="mp3") as container:
        stream = container.add_stream("libmp3lame", rate=SAMPLE_RATE, layout="mono")
        stream.bit_rate = BIT_RATE
        frame = av.AudioFrame.from_ndarray(as_int16(samples)[None], format="s16p", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        for packet in (*stream.encode(frame), *stream.encode(None)):
            container.mux(packet)
    return f"data:audio/mpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
