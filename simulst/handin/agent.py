"""SimulEval's remote agent of a packed system: `python -m simulst.handin.agent systems/NAME --remote-port 8888`.

SimulEval's evaluator talks to it: `simuleval --remote-eval --remote-address HOST --remote-port 8888 ...`.
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
    """Start the agent."""
    from simuleval.cli import main as simuleval

    system, *more = sys.argv[1:]
    sys.argv = ["simuleval", "--standalone", *arguments_of(Path(system)), *more]
    simuleval()


if __name__ == "__main__":
    main()
