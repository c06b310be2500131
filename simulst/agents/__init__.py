"""Adapters with which other evaluators can run simulst's streams."""
