"""Streams of any length: where speech is, and where it pauses."""
