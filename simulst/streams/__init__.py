"""Streams: one utterance, or a recording that is cut at its pauses. `open_stream` opens either."""

from __future__ import annotations

from simulst.streams import open_stream, skipped_steps
from simulst.streams.base import OpenStream

__all__ = ["OpenStream", "open_stream", "skipped_steps"]
