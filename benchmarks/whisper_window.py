"""Cost and quality of Whisper's window: the full 30 s against speech with a little padding and precomputed silence.

    python benchmarks/whisper_window.py [--languages es it] [--set dev] [--online]

Decodes offline, or with --online by LA-2 at one second, with each window. Prints BLEU with its confidence interval, the
length of the output / the length of the reference (above 1: repetitions), and the RTF. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tqdm import tqdm

from simulst.config import Decoding
from simulst.data.datadir import read_data_dir
from simulst.log.instance import Instance
from simulst.machine.processor import processor
from simulst.measure import compare, score
from simulst.models import load_model
from simulst.policy.commit import All, LocalAgreement
from simulst.policy.read import Chunk, Offline
from simulst.runs.decode import decode_utterance

ROOT = Path(__file__).resolve().parent.parent
WINDOWS: dict[str, dict[str, Any]] = {
    "full 30 s": {"padding_seconds": 30.0},
    "speech + 2 s + silence to 30 s": {"padding_seconds": 2.0},
    "speech + 2 s + 10 s of silence": {"padding_seconds": 2.0, "silence_seconds": 10.0},
    "speech + 10 s": {"padding_seconds": 10.0, "silence_seconds": 0.0},
    "speech + 5 s": {"padding_seconds": 5.0, "silence_seconds": 0.0},
    "speech + 2 s": {"padding_seconds": 2.0, "silence_seconds": 0.0},
}


def main() -> None:
    """Run the comparison that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=ROOT / "egs/prompts/models/whisper-base", type=Path)
    parser.add_argument("--data", default=ROOT / "egs/prompts/data", type=Path)
    parser.add_argument("--languages", nargs="+", default=["es", "it"])
    parser.add_argument("--set", default="dev")
    parser.add_argument("--limit", type=int, help="utterances per language")
    parser.add_argument("--online", action="store_true", help="LA-2 at one second instead of offline")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    print(processor())
    decoding = Decoding(Chunk(1000), LocalAgreement(2)) if arguments.online else Decoding(Offline(), All())
    logs: dict[str, list[Instance]] = {window: [] for window in WINDOWS}
    threads = arguments.threads
    models = {window: load_model(arguments.model, threads=threads, **options) for window, options in WINDOWS.items()}
    for language in arguments.languages:
        utterances = read_data_dir(arguments.data / f"{language}-en" / arguments.set, "en")[: arguments.limit]
        for utterance in tqdm(utterances, desc=language):
            for window, model in models.items():
                logs[window] += decode_utterance(model, (language, "en"), utterance, len(logs[window]), [decoding])
    rows = {window: score(log, bootstrap=1000) for window, log in logs.items()}
    for window, log in logs.items():
        row = rows[window]
        row["BLEU_p"] = compare(logs["full 30 s"], log)["BLEU_p"]
        print(
            f"{window:30s} BLEU {row['BLEU']:5.1f} [{row['BLEU_low']:.1f}, {row['BLEU_high']:.1f}]"
            f"  p against full {row['BLEU_p']:.3f}  length {row['length_ratio']:.2f}  RTF {row['RTF']:.3f}"
        )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
