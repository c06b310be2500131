"""The units in which papers and models measure audio."""

from __future__ import annotations

SAMPLE_RATE = 16000
"""Samples per second of all audio inside simulst."""

FRAME_MS = 10
"""Duration of a frame in ms: papers count speech in frames, and features have one vector per frame."""

FRAME = SAMPLE_RATE * FRAME_MS // 1000
"""Samples per frame."""
