"""SimulEval's evaluator of a remote agent: `python -m simulst.handin.evaluator --remote-eval ...`.

SimulEval 1.1.4's remote evaluator asks its evaluator for `instance_iterator`, which is called `iterator` there.
"""

from __future__ import annotations

from simuleval import cli
from simuleval.evaluator import SentenceLevelEvaluator

if __name__ == "__main__":
    if not hasattr(SentenceLevelEvaluator, "instance_iterator"):
        SentenceLevelEvaluator.instance_iterator = property(lambda self: self.iterator)
    cli.main()
