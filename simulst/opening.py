"""What is known of an utterance before its audio comes. `model.session(Opening(...))` opens it."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulst.background import NOTHING, Background
from simulst.meter import Meter


@dataclass(frozen=True)
class Opening:
    """One utterance of a stream. What a model can't use, it ignores.

    source: language spoken, such as "es".
    target: language written, such as "en".
    meter: the clock of the stream. Sessions of the same utterance whose meters share a memo share work.
    background: what is known of the recording.
    history: text that was written before this utterance.
    restarts: whether a text begins anew that has ended although speech goes on (see `Segmentation.restart`).
    names: of the utterance, such as that of its recording, which is heard from its beginning on; empty: not known.
    """

    source: str
    target: str
    meter: Meter = field(default_factory=Meter)
    background: Background = NOTHING
    history: str = ""
    restarts: bool = False
    names: tuple[str, ...] = ()

    @property
    def languages(self) -> tuple[str, str]:
        """Spoken and written."""
        return self.source, self.target
