"""Streams of any length: find speech and pauses in them."""
