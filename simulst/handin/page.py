"""The README and the system card of a hand-in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import simulst
from simulst.handin.image import AGENT_PORT, CLIENT, PORT, Image
from simulst.handin.system import System, yaml_text
from simulst.machine.processor import processor
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
        "scores of the development recordings.",
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


def card(systems: Mapping[str, System], scores: Mapping[str, dict[str, Any]], folder: Path) -> str:
    """What the systems are, as far as their files tell it."""
    size = sum(file.stat().st_size for file in (folder / "models").rglob("*") if file.is_file())
    text = [
        "# System card",
        "",
        f"simulst {simulst.__version__}; decoded on: {processor()}. All scores are of the development recordings, "
        f"by OmniSTEval and sacreBLEU. The files of all models have {size / 1e6:.0f} MB. Licences of models and "
        "packages are in `licences/`.",
    ]
    for name, system in systems.items():
        found = scores[name]
        low, high = system.regime
        text += [
            "",
            f"## {name}",
            "",
            f"* direction {system.direction}; regime {system.metric} {low:g} to {high:g} ms, by a lag of "
            f"{found[system.metric]:.0f} ms",
            f"* BLEU: {found['BLEU_signature']}",
            "",
            "```yaml",
            yaml_text(system.decoding).strip(),
            "```",
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
