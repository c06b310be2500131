"""A long stream through a blockwise model: do time and memory stay flat, and how much worse is the text than segments?

    python benchmarks/long_stream.py [--minutes 60] [--window 30] [--pause 0.25]

The model of egs/mini translates the talks of tst-COMMON as one stream. The talks repeat until there are enough minutes.
The stream is cut at the pauses that the voice activity detector finds. Then the model translates the segments of the
same talks one by one. Both texts are scored by talk, and segments with the same text in both are counted. RTF counts
processor time. The last line is JSON.
"""

from __future__ import annotations

import json
import resource
import time
from collections import defaultdict
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
from processor import processor
from tqdm import tqdm

from simulst.command import run_command
from simulst.config import parse_decoding
from simulst.data.audio import load_audio
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError
from simulst.metrics.quality import bleu
from simulst.models import load_model
from simulst.models.espnet.session import ESPnetSession
from simulst.runs import decode_utterance
from simulst.search import Tokens
from simulst.streams import open_stream
from simulst.units import SAMPLE_RATE

ROOT = Path(__file__).resolve().parent.parent
DECODING = {
    "read": {"type": "block"},
    "stop": {"type": "ctc", "threshold": 0.0},
    "commit": {"type": "all"},
    "search": {"type": "ibwbs"},
}
PUSH = SAMPLE_RATE // 5  # samples per push
BETWEEN = 3.0  # seconds of silence between talks, enough for all words of a talk to be written
REPORTS = 6  # the stream is reported in so many parts


@click.command(help=__doc__)
@click.option("--minutes", type=click.FloatRange(0.1), default=60.0, show_default=True)
@click.option(
    "--window",
    type=click.FloatRange(0.0),
    default=30.0,
    show_default=True,
    help="Seconds of speech that the decoder sees; 0: all.",
)
@click.option(
    "--pause",
    type=click.FloatRange(0.0),
    default=0.25,
    show_default=True,
    help="Seconds of silence at which the stream is cut; 0: it is not cut.",
)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--experiment", default=ROOT / "egs/mini/exp/en-de/st", type=click.Path(path_type=Path))
@click.option("--data", default=ROOT / "egs/mini/data/en-de/tst-COMMON", type=click.Path(path_type=Path))
def main(minutes: float, window: float, pause: float, threads: int, experiment: Path, data: Path) -> None:
    """Decode the stream, then the segments."""
    print(processor())
    if not (experiment / "chosen.pth").is_file():
        raise SimulstError(f"{experiment}: no chosen.pth; run ./run.sh --recipe mini --stop-stage 7.")
    utterances = read_data_dir(data, "tc.de")
    talks: dict[Path, list[int]] = defaultdict(list)
    for number, utterance in enumerate(utterances):
        talks[utterance.wav].append(number)
    load: dict[str, Any] = {"threads": threads, "checkpoint": "chosen.pth"}
    model = load_model(experiment, window=window, **load)
    slides = count_slides()
    segment = {"type": "pause", "seconds": pause} if pause else {"type": "none"}
    stream = open_stream(model, parse_decoding({**DECODING, "segment": segment}, "benchmark"), "en", "de")
    order: list[Path] = []
    ends: list[float] = []  # where the talks end in the stream, in ms
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
                started = time.process_time()  # processor time, which other processes do not change
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
    alone, decoding = load_model(experiment, **load), parse_decoding(DECODING, "benchmark")
    segments = {
        number: decode_utterance(alone, ("en", "de"), utterances[number], number, [decoding])[0].prediction
        for number in tqdm([n for talk in dict.fromkeys(order) for n in talks[talk]], desc="segments alone")
    }
    words: list[list[str]] = [[] for _ in order]
    for emission in stream.emissions:
        words[int(np.searchsorted(ends, min(emission.delay_ms, ends[-1])))].append(emission.text.strip())
    references = [" ".join(utterances[n].reference for n in talks[talk]) for talk in order]
    scores = {
        "stream": bleu([" ".join(w) for w in words], references, "de").score,
        "segments": bleu([" ".join(segments[n] for n in talks[talk]) for talk in order], references, "de").score,
    }
    for part in parts:
        print(f"to {part['to_s']:6.0f} s: RTF {part['rtf']:.4f}, memory {part['MB']:.0f} MB")
    same = [
        same_texts(spoken, [segments[n].split() for n in talks[talk]])
        for spoken, talk in zip(words, order, strict=True)
    ]
    there = sum(len(talks[talk]) for talk in order)
    print(f"BLEU by talk: one stream {scores['stream']:.1f}, segments alone {scores['segments']:.1f}")
    print(f"segments with the same text as alone: {100 * sum(same) / there:.1f} %; the window slid {len(slides)} times")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result: dict[str, Any] = {
        "minutes": minutes,
        "window": window,
        "pause": pause,
        "parts": parts,
        "BLEU": scores,
        "peak_MB": peak,
    }
    result |= {"slides": len(slides), "same_share": sum(same) / there, "sentences": {"there": there}}
    if pause:
        result["sentences"]["found"] = len(stream.segments)
    print(json.dumps(result))


def count_slides() -> list[int]:
    """A list that grows by one item whenever a window slides: how many tokens have left it so far."""
    slides: list[int] = []
    slide = ESPnetSession.slide

    def counted(session: ESPnetSession, committed: Tokens) -> None:
        slide(session, committed)
        slides.append(session.gone)

    ESPnetSession.slide = counted  # type: ignore
    return slides


def same_texts(stream: list[str], segments: list[list[str]]) -> int:
    """How many segments occur in the words of the stream as they are: all of their words, with no others between."""
    alone = [word for words in segments for word in words]
    place = [-1] * len(alone)  # the position of each matching word in the stream
    for block in SequenceMatcher(None, alone, stream, autojunk=False).get_matching_blocks():
        place[block.a : block.a + block.size] = range(block.b, block.b + block.size)
    count = start = 0
    for words in segments:
        found = place[start : start + len(words)]
        start += len(words)
        count += bool(found) and found[0] >= 0 and found == list(range(found[0], found[0] + len(found)))
    return count


if __name__ == "__main__":
    run_command(main)
