"""What each part of decoding costs on this machine."""

from __future__ import annotations

import bisect
import itertools
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from simulst.audio.units import SAMPLE_RATE
from simulst.calls import Call, run_alone
from simulst.config import Decoding
from simulst.data.datadir import Utterance, by_hash, drawn
from simulst.machine.threads import waited_seconds, waits
from simulst.runs.decode import Spoken
from simulst.runs.folder import Task
from simulst.session import Model


@dataclass
class Cost:
    """What it costs to decode a sample in one process, an utterance after the other.

    audio: seconds of audio.
    seconds: of computation, for all configurations, which share work.
    parts: the seconds of each kind of call; what is left are features, CTC prefix scores, policies and words.
    waited: seconds that threads waited for a processor, because of other work.
    """

    audio: float = 0.0
    seconds: float = 0.0
    parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    waited: float = 0.0

    def rows(self) -> list[tuple[str, float]]:
        """Each part and its seconds, the most expensive first; what is no call is the last."""
        return [
            *sorted(self.parts.items(), key=lambda part: -part[1]),
            ("everything else", self.seconds - sum(self.parts.values())),
        ]


def sample_of(utterances: Sequence[Utterance], seconds: float) -> list[Utterance]:
    """The fewest that have so many seconds of audio; all, if all of them have less. As `simulst sweep --draw` draws."""
    sums = list(itertools.accumulate(one.seconds for one in by_hash(utterances)))
    return drawn(utterances, 1 + bisect.bisect_left(sums, seconds))


def measure(model: Model, task: Task, utterances: Sequence[Utterance], decodings: Sequence[Decoding]) -> Cost:
    """Decode the utterances under all configurations, as a sweep does in one process.

    Raises SimulstError: audio can't be read; the model does not support a configuration.
    """
    cost = Cost()

    def answer(call: Call) -> Any:
        before = time.perf_counter()
        try:
            return call.answer()
        finally:
            cost.parts[_name(call)] += time.perf_counter() - before

    for utterance in utterances:
        spoken = Spoken(utterance, 0, (task.source_language, task.target_language), share=len(decodings) > 1)
        cost.audio += spoken.audio.size / SAMPLE_RATE
        before, waits_before = time.perf_counter(), waits()
        for decoding in decodings:
            stream = spoken.open(model, decoding, task.unit)
            run_alone(stream.push_steps(spoken.audio, finished=True), answer)
        cost.seconds += time.perf_counter() - before
        cost.waited += waited_seconds(waits_before)
    return cost


def _name(call: Call) -> str:
    """The kind of a call in words: the name of its function, such as "decoder step"."""
    return getattr(getattr(call, "function", type(call)), "__name__", "batched").strip("<_>").replace("_", " ")
