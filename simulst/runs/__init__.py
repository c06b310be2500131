"""Runs: decode a data directory under one or many configurations, keep the results, and score them.

folder.py has a run's task and its folder, with config.yaml and the log; decode.py fills it; score.py scores it.
"""

from __future__ import annotations

from simulst.runs.decode import decode_utterance, instance_of, names_of, run
from simulst.runs.folder import CONFIG, RunConfig, Task, model_of, read_run_config
from simulst.runs.score import compare_runs, read_run_log, score_run

__all__ = [
    "CONFIG",
    "RunConfig",
    "Task",
    "compare_runs",
    "decode_utterance",
    "instance_of",
    "model_of",
    "names_of",
    "read_run_config",
    "read_run_log",
    "run",
    "score_run",
]
