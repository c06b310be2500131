"""The README of a hand-in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import simulst
from simulst.handin.image import AGENT_PORT, CLIENT, PORT, Image
from simulst.handin.system import System
from simulst.measure.metric import metrics_in


def readme(systems: Mapping[str, System], scores: Mapping[str, dict[str, Any]], image: Image, contact: str) -> str:
    """How to run each system, and who answers questions."""
    directions = list(dict.fromkeys(system.direction for system in systems.values()))
    gpu = " --gpus all" if image.device != "cpu" else ""
    first = next(iter(systems))
    text = [
        "# Simultaneous speech translation: " + ", ".join(directions),
        "",
        f"Contact: {contact}",
        "",
        "```sh",
        "docker build --tag simulst-handin .",
        f"docker run --rm{gpu} --publish {PORT}:{PORT} --env SYSTEM={first} simulst-handin",
        "```",
        "",
        f"The server is simulstream's HTTP processor server, on port {PORT}; `SYSTEM` names one of the systems below. "
        "It needs no network. SimulEval's remote agent is built by `--file Dockerfile.simuleval`, and listens on port "
        f"{AGENT_PORT}.",
        "",
        "simulstream's client, with the packages of `requirements.txt`, sends the WAV files that `wavs.txt` names:",
        "",
        "```sh",
        f"simulstream_inference --speech-processor-config {CLIENT} --wav-list-file wavs.txt --src-lang "
        f"{systems[first].source_lang} --tgt-lang {systems[first].target_lang} --metrics-log-file log.jsonl",
        "```",
        "",
        "`python3 verify.py RECORDINGS` checks this folder: digests, the installed packages, and words, delays and "
        f"scores of the development recordings. It was packed by simulst {simulst.__version__}. Each system's folder "
        "has its `decoding.yaml` and `system.yaml`; licences of models and packages are in `licences/`.",
    ]
    for direction in directions:
        names = [name for name, system in systems.items() if system.direction == direction]
        text += ["", f"## {direction}", "", *_table(names, systems, scores)]
        for name in names:
            system = systems[name]
            text += [
                "",
                f"`{name}`: clients send the languages `{system.source_lang}` and `{system.target_lang}`; the log is "
                f"`systems/{name}/simulstream.jsonl`.",
            ]
    return "\n".join([*text, ""])


def _table(names: Sequence[str], systems: Mapping[str, System], scores: Mapping[str, dict[str, Any]]) -> list[str]:
    metrics = [m for m in metrics_in(scores[name] for name in names).values() if m.column and m.key in scores[names[0]]]
    rows = [f"| System | Regime (ms) | {' | '.join(m.name for m in metrics)} |", "|---|---|" + "---:|" * len(metrics)]
    for name in names:
        low, high = systems[name].regime
        shown = " | ".join(metric.text(scores[name].get(metric.key)) for metric in metrics)
        rows.append(f"| `{name}` | {low:g}–{high:g} | {shown} |")
    return rows
