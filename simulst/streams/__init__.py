"""Streams: one utterance, or a recording that is cut at its pauses."""
