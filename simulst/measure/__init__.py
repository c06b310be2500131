"""Measure: from logs to scores.

metric.py says what each metric is; score.py has `score` and `compare`, by which all commands score; file.py has a run's
scores.json.
"""

from __future__ import annotations

from simulst.measure.comet import Comet
from simulst.measure.longform import Sentences
from simulst.measure.metric import Metric, Texts
from simulst.measure.score import Asked, compare, score

__all__ = ["Asked", "Comet", "Metric", "Sentences", "Texts", "compare", "score"]
