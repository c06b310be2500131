"""Speed and memory of data preparation, on a synthetic corpus in MuST-C's layout and on the same segments as a TSV.

    python benchmarks/data_preparation.py [--segments 10000] [--per-talk 100] [--json]

Each reader runs in its own process, on the split "train", with all of its filters. MuST-C has one long audio file per
talk. The TSV has one file per segment, like Common Voice. The files are short, because this stage does not read much
audio. With --json the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import numpy as np
import soundfile

from simulst.audio.units import SAMPLE_RATE
from simulst.machine.processor import processor

# Runs in a fresh process. VmHWM is its own peak memory; getrusage's would be at least the parent's.
RUN = """
import json, re, sys, time
from pathlib import Path
sys.path.append(sys.argv[3])
from corpora.must_c import prepare_must_c
from corpora.tsv import Columns, prepare_tsv
kind, root = sys.argv[1], Path(sys.argv[2])
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
before = peak()
start = time.perf_counter()
if kind == "must_c":
    counts = prepare_must_c(root, root / "out", "en-de", ["train"])["train"]
else:
    counts = prepare_tsv({"train": root / "train.tsv"}, root / "out", "en-de", Columns())["train"]
seconds = time.perf_counter() - start
print(json.dumps({"kept": counts["kept"], "found": counts["found"], "segments_per_s": counts["found"] / seconds,
                  "seconds": seconds, "imports_mb": before, "peak_mb": peak()}))
"""
WORDS = "the of and to in that we is you it this I a so for are was have they be on with what can not there all one if"


def make(root: Path, segments: int, per_talk: int) -> None:
    """Write `segments` segments of 0.3 s. In one of ten, there is something to filter or to normalise."""
    rng = Random(0)
    words = WORDS.split()
    txt, wav = (root / "en-de" / "data" / "train" / name for name in ("txt", "wav"))
    for folder in (txt, wav, root / "clips"):
        folder.mkdir(parents=True)
    rows, lines = ["path\tsentence\ttranslation"], []
    texts: dict[str, list[str]] = {"en": [], "de": []}
    for i in range(segments):
        talk, place = divmod(i, per_talk)
        english, german = (" ".join(rng.choices(words, k=rng.randint(12, 24))).capitalize() for _ in range(2))
        if i % 10 == 0:
            english, german = f"(Laughter) {english}", f"„{german}“ (Gelächter)"
        texts["en"].append(f"{english}.")
        texts["de"].append(f"{german}.")
        lines.append(
            f"- {{duration: 0.300000, offset: {0.3 * place:.6f}, rW: 9, uW: 0, speaker_id: spk.{talk}, "
            f"wav: ted_{talk}.wav}}"
        )
        rows.append(f"clips/{i}.wav\t{texts['en'][-1]}\t{texts['de'][-1]}")
        tiny(root / "clips" / f"{i}.wav", 0.3)
        if place == 0:
            tiny(wav / f"ted_{talk}.wav", 0.3 * per_talk)
    (txt / "train.yaml").write_text("\n".join(lines) + "\n")
    (root / "train.tsv").write_text("\n".join(rows) + "\n")
    for language, values in texts.items():
        (txt / f"train.{language}").write_text("\n".join(values) + "\n")


def tiny(path: Path, seconds: float) -> None:
    """Write a WAV of silence. This stage does not depend on the content of the audio."""
    soundfile.write(path, np.zeros(round(seconds * SAMPLE_RATE), np.int16), SAMPLE_RATE)


def main() -> None:
    """Run the measurement that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--per-talk", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    print(processor())
    summary = {}
    with tempfile.TemporaryDirectory(prefix="simulst-") as folder:
        root = Path(folder)
        make(root, arguments.segments, arguments.per_talk)
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
        for kind in ("must_c", "tsv"):
            command = [sys.executable, "-c", RUN, kind, folder, str(Path(__file__).parents[1] / "local")]
            output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
            summary[kind] = result = json.loads(output)
            print(
                f"{kind}: {result['found']} segments, {result['kept']} kept, {result['seconds']:.1f} s, "
                f"{result['segments_per_s']:.0f} segments/s, peak {result['peak_mb']:.0f} MB "
                f"({result['imports_mb']:.0f} MB of them before the start)"
            )
    if arguments.json:
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
