"""What a sweep saves by sharing: all strategies of a chunk size together against one by one, same outputs.

    python benchmarks/sweep_sharing.py [--limit 10] [--ms 500 1000 2000]

Per utterance the shared and the separate decodings take turns. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from tqdm import tqdm

from simulst.config import Decoding
from simulst.data.datadir import read_data_dir
from simulst.models.whisper import Whisper
from simulst.policy.commit import Commit, Hold, LocalAgreement, SharedPrefix
from simulst.policy.read import Chunk
from simulst.runs import decode_utterance

ROOT = Path(__file__).resolve().parent.parent
STRATEGIES: list[Commit] = [
    LocalAgreement(2), LocalAgreement(3), Hold(3), Hold(6), SharedPrefix(1), SharedPrefix(2),
]  # fmt: skip


def main() -> None:
    """Run the comparison that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=ROOT / "egs/prompts/models/whisper-base", type=Path)
    parser.add_argument("--data", default=ROOT / "egs/prompts/data/es-en/tst", type=Path)
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--ms", nargs="+", type=float, default=[500, 1000, 2000])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    model = Whisper(arguments.model, "es", "en", threads=arguments.threads)
    utterances = read_data_dir(arguments.data, "en")[: arguments.limit]
    summary = {}
    for ms in arguments.ms:
        decodings = [Decoding(Chunk(ms), commit) for commit in STRATEGIES]
        seconds = {"shared": 0.0, "separate": 0.0}
        same = True
        for index, utterance in enumerate(tqdm(utterances, desc=f"{ms:g} ms")):
            outputs = {}
            for way in ("shared", "separate"):
                started = time.perf_counter()
                instances = decode_utterance(model, utterance, index, decodings, "word", share=way == "shared")
                seconds[way] += time.perf_counter() - started
                outputs[way] = [(instance.prediction, instance.delays) for instance in instances]
            same &= outputs["shared"] == outputs["separate"]
        ratio = seconds["shared"] / seconds["separate"]
        print(
            f"{ms:g} ms: together {seconds['shared']:.1f} s, one by one {seconds['separate']:.1f} s, ratio {ratio:.2f}"
        )
        summary[f"{ms:g}"] = {**seconds, "ratio": ratio, "same_outputs": same}
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
