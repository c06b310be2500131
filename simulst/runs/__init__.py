"""Runs: decode a data directory under one or many configurations, and keep the results."""

from __future__ import annotations

from simulst.runs.decode import decode_utterance, run
from simulst.runs.folder import CONFIG, LOG, SCORES, read_run_config, recordings_scores, score_run, write_scores
from simulst.runs.task import Task, model_of

__all__ = [
    "CONFIG",
    "LOG",
    "SCORES",
    "Task",
    "decode_utterance",
    "model_of",
    "read_run_config",
    "recordings_scores",
    "run",
    "score_run",
    "write_scores",
]
