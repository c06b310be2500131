"""A long stream through a blockwise model: whether time and memory stay flat, and what the text loses against segments.

    python benchmarks/long_stream.py [--minutes 60] [--window 30] [--pause 0.25]

What egs/mini trained translates the talks of tst-COMMON, one after the other and again from the start until there are
enough, as one stream without segmentation, cut where the voice activity detector hears a pause; then the segments of
the same talks alone. Both texts are scored by talk. RTF counts processor time.
The last line is JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import defaultdict
from pathlib import Path

import click
import numpy as np
import psutil
from tqdm import tqdm

from simulst.config import parse_decoding
from simulst.data.audio import SAMPLE_RATE, load_audio
from simulst.data.datadir import read_data_dir
from simulst.metrics.quality import bleu
from simulst.models.espnet import ESPnet
from simulst.pauses import Segmented, open_stream
from simulst.runs import decode_utterance

ROOT = Path(__file__).resolve().parent.parent
DECODING = {
    "read": {"type": "block"},
    "stop": {"type": "ctc", "threshold": 0.0},
    "commit": {"type": "all"},
    "search": {"type": "ibwbs"},
}
PUSH = SAMPLE_RATE // 5  # samples handed over at a time
BETWEEN = 3.0  # seconds of silence between talks, within which the words of one have all left
REPORTS = 6  # parts of the stream that are reported


@click.command(help=__doc__)
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--window", default=30.0, show_default=True, help="Seconds that the decoder looks back on; 0: all.")
@click.option("--pause", default=0.25, show_default=True, help="Seconds of silence that end a sentence; 0: none do.")
@click.option("--threads", default=1, show_default=True)
@click.option("--experiment", default=ROOT / "egs/mini/exp/en-de/st", type=click.Path(path_type=Path))
@click.option("--data", default=ROOT / "egs/mini/data/en-de/tst-COMMON", type=click.Path(path_type=Path))
def main(minutes: float, window: float, pause: float, threads: int, experiment: Path, data: Path) -> None:
    """Stream, then decode segments."""
    if not (experiment / "chosen.pth").is_file():
        sys.exit(f"error: {experiment / 'chosen.pth'} is missing; run ./run.sh --recipe mini --stop-stage 7.")
    utterances = read_data_dir(data, "tc.de")
    talks: dict[Path, list[int]] = defaultdict(list)
    for number, utterance in enumerate(utterances):
        talks[utterance.wav].append(number)
    load = {"threads": threads, "checkpoint": "chosen.pth"}
    model = ESPnet(experiment, "en", "de", window=window, pause=pause, **load)
    decoding = parse_decoding(DECODING, "benchmark")
    stream = open_stream(model, decoding)
    order: list[Path] = []
    ends: list[float] = []  # of talks in the stream, in ms
    parts: list[dict[str, float]] = []
    process = psutil.Process()
    pushed, spent, reported = 0, 0.0, 0.0
    total = minutes * 60 * SAMPLE_RATE
    with tqdm(total=round(minutes * 60), unit="s of audio") as progress:
        while pushed < total:
            talk = list(talks)[len(order) % len(talks)]
            silence = np.random.default_rng(len(order)).normal(0, 1e-4, round(BETWEEN * SAMPLE_RATE))
            audio = np.concatenate([load_audio(talk), silence.astype(np.float32)])
            for start in range(0, audio.size, PUSH):
                piece = audio[start : start + PUSH]
                started = time.process_time()  # on a shared machine the clock would show the others' work
                stream.push(piece)
                spent += time.process_time() - started
                pushed += piece.size
                progress.update(round(pushed / SAMPLE_RATE) - progress.n)
                if pushed >= total * (len(parts) + 1) / REPORTS:
                    seconds = pushed / SAMPLE_RATE
                    megabytes = process.memory_info().rss / 2**20
                    parts.append(
                        {"to_s": seconds, "rtf": (spent - reported) * REPORTS / (total / SAMPLE_RATE), "MB": megabytes}
                    )
                    reported = spent
            order.append(talk)
            ends.append(pushed * 1000 / SAMPLE_RATE)
    stream.push(np.zeros(0, dtype=np.float32), finished=True)
    alone = ESPnet(experiment, "en", "de", **load)
    segments = {
        number: decode_utterance(alone, utterances[number], number, [decoding], "word")[0].prediction
        for number in tqdm([n for talk in dict.fromkeys(order) for n in talks[talk]], desc="segments alone")
    }
    words: list[list[str]] = [[] for _ in order]
    for emission in stream.emissions:
        words[int(np.searchsorted(ends, min(emission.delay_ms, ends[-1])))].append(emission.text)
    references = [" ".join(utterances[n].reference for n in talks[talk]) for talk in order]
    scores = {
        "stream": bleu([" ".join(w) for w in words], references, "de").score,
        "segments": bleu([" ".join(segments[n] for n in talks[talk]) for talk in order], references, "de").score,
    }
    for part in parts:
        print(f"to {part['to_s']:6.0f} s: RTF {part['rtf']:.4f}, memory {part['MB']:.0f} MB")
    print(f"BLEU by talk: one stream {scores['stream']:.1f}, segments alone {scores['segments']:.1f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = {"minutes": minutes, "window": window, "pause": pause, "parts": parts, "BLEU": scores, "peak_MB": peak}
    result["sentences"] = {"there": sum(len(talks[talk]) for talk in order)}
    if isinstance(stream, Segmented):
        result["sentences"]["found"] = len(stream.segments)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
