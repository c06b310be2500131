"""The units that papers and models count audio in."""

from __future__ import annotations

SAMPLE_RATE = 16000
"""Samples a second, of all audio inside simulst."""

FRAME_MS = 10
"""A frame, as papers count speech and as features come."""

FRAME = SAMPLE_RATE * FRAME_MS // 1000
"""Samples of a frame."""
