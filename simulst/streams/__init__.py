"""Streams: one utterance, or a recording that is cut at its pauses. `open_stream` opens either."""

from __future__ import annotations

from simulst.stream import OpenStream
from simulst.streams.open import open_stream, skipped_steps

__all__ = ["OpenStream", "open_stream", "skipped_steps"]
