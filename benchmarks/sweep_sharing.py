"""What a sweep saves by sharing: configurations of one chunk size, decoded together and one by one, same output.

    python benchmarks/sweep_sharing.py [--limit 10] [--ms 500 1000 2000]

For each utterance, the shared and the separate decoding take turns. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from tqdm import tqdm

from simulst.config import load_sweep
from simulst.data.datadir import read_data_dir
from simulst.machine.processor import processor
from simulst.models import load_model
from simulst.policy.read import Chunk
from simulst.runs.decode import decode_utterance

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run the comparison that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=ROOT / "egs/prompts/models/whisper-base", type=Path)
    parser.add_argument("--data", default=ROOT / "egs/prompts/data/es-en/tst", type=Path)
    parser.add_argument("--decodings", default=ROOT / "egs/prompts/conf/paper_a_es.yaml", type=Path)
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--ms", nargs="+", type=float, default=[500, 1000, 2000])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    print(processor())
    model = load_model(arguments.model, threads=arguments.threads)
    utterances = read_data_dir(arguments.data, "en")[: arguments.limit]
    summary = {}
    for ms in arguments.ms:
        decodings = [d for d in load_sweep(arguments.decodings) if isinstance(d.read, Chunk) and d.read.ms == ms]
        seconds = {"shared": 0.0, "separate": 0.0}
        same = True
        for index, utterance in enumerate(tqdm(utterances, desc=f"{ms:g} ms")):
            outputs = {}
            for way in ("shared", "separate"):
                started = time.perf_counter()
                instances = decode_utterance(model, ("es", "en"), utterance, index, decodings, share=way == "shared")
                seconds[way] += time.perf_counter() - started
                outputs[way] = [(instance.prediction, instance.delays) for instance in instances]
            same &= outputs["shared"] == outputs["separate"]
        ratio = seconds["shared"] / seconds["separate"]
        print(
            f"{ms:g} ms, {len(decodings)} configurations: together {seconds['shared']:.1f} s, "
            f"one by one {seconds['separate']:.1f} s, ratio {ratio:.2f}"
        )
        summary[f"{ms:g}"] = {**seconds, "ratio": ratio, "same_outputs": same}
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
