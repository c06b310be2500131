"""Runs: decode a data directory under one or many configurations, and keep the results.

config.py has config.yaml, scores.py has scores.json, folder.py the folder with both; decode.py fills it.
"""

from __future__ import annotations

from simulst.runs.config import CONFIG, RunConfig, read_run_config
from simulst.runs.decode import decode_utterance, instance_of, run
from simulst.runs.scores import LOG, SCORES, read_run_log, read_scores, recordings_scores, score_run, write_scores
from simulst.runs.task import Task, model_of

__all__ = [
    "CONFIG",
    "LOG",
    "SCORES",
    "RunConfig",
    "Task",
    "decode_utterance",
    "instance_of",
    "model_of",
    "read_run_config",
    "read_run_log",
    "read_scores",
    "recordings_scores",
    "run",
    "score_run",
    "write_scores",
]
