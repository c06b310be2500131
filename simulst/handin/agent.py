"""SimulEval's remote agent of a packed system, and the evaluator that talks to it.

python -m simulst.handin.agent systems/NAME --remote-port 8888
python -m simulst.handin.agent --remote-eval --remote-address HOST --remote-port 8888 ...
"""

from __future__ import annotations

import sys
from pathlib import Path

from simulst.handin.system import packed_mapping
from simulst.languages import unit_of


def arguments_of(system: Path) -> list[str]:
    """SimulEval's arguments of a system, whose decoding configuration is `decoding.yaml` beside its processor."""
    content = packed_mapping(system / "processor.yaml")
    found = ["--agent-class", "simulst.serve.simuleval.StreamAgent", "--decoding", str(system / "decoding.yaml")]
    for key in ("model", "source_lang", "target_lang", "unit", "context"):
        if key in content:
            found += ["--" + key.replace("_", "-"), str(content[key])]
    found += ["--eval-latency-unit", content.get("unit") or unit_of(str(content.get("target_lang")))]
    for name, value in content.get("model_options", {}).items():
        found += ["--model-option", f"{name}={value}"]
    return found


def main() -> None:
    """Start the agent, or the evaluator."""
    from simuleval.cli import main as simuleval
    from simuleval.evaluator import SentenceLevelEvaluator

    given = sys.argv[1:]
    if given[0] != "--remote-eval":
        given = ["--standalone", *arguments_of(Path(given[0])), *given[1:]]
    elif not hasattr(SentenceLevelEvaluator, "instance_iterator"):  # as SimulEval 1.1.4's remote evaluator calls it
        SentenceLevelEvaluator.instance_iterator = property(lambda self: self.iterator)
    sys.argv = ["simuleval", *given]
    simuleval()


if __name__ == "__main__":
    main()
