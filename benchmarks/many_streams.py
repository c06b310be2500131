"""Many streams of a model in one driver, against the same streams one after the other, and in turns call by call.

    python benchmarks/many_streams.py --paper --streams 16 [--threads 1 --cpu] [--seconds 10]
    python benchmarks/many_streams.py --streams 64 [--threads 1 --cpu] [--model DIR --model-option checkpoint=FILE]
    python benchmarks/many_streams.py --streams 8 --model egs/prompts/models/whisper-base \\
        --data egs/prompts/data/es-en/tst --languages es en --decoding conf/decode/la2w_1000ms.yaml --rounds 1 \\
        [--model-option threads=1]

The models are those of engine_vs_espnet.py (mini's own, or random weights of CUNI-KIT 2023's size and noise), or any
other. All ways decode in turns, so that a busy machine slows all; the ratio is the median of the rounds. With --cpu and
one thread, processor time is measured, which other programs hardly change. The last line is JSON:

    speedup             time one after the other / time together
    same                whether all words and their delays are the same
    streams_in_real_time    how many such streams the machine could serve, alone and together
    lag_ms              of a chunk of 640 ms, the median and the worst: of a stream alone; among `lag_streams`, which
                        begin at random times and speak in real time; among as many that take turns, call by call. The
                        computation is real, the time simulated.
    MiB_per_stream      the memory that an open stream takes, at the middle of its audio
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import engine_vs_espnet
import numpy as np
import torch

from simulst.audio.read import load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.commands.common import run_command
from simulst.config import load_decoding, parse_decoding
from simulst.data.datadir import read_data_dir
from simulst.machine.processor import processor
from simulst.models import load_model
from simulst.models.registry import parse_options
from simulst.streams import OpenStream, open_stream
from simulst.streams.driver import Driver

ROOT = Path(__file__).resolve().parent.parent
CHUNK = 10240  # samples: one block of 16 frames of 40 ms
WAY = {"read": {"type": "block"}, "commit": {"type": "local_agreement", "n": 2}, "search": {"type": "bwbs", "beam": 6}}


def bytes_in_use() -> int:
    """Bytes of this process that are in memory, without what was freed."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back to the system
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def one_after_the_other(open_one: Callable[[], OpenStream], audios: list[np.ndarray]) -> list[OpenStream]:
    streams = [open_one() for _ in audios]
    for stream, audio in zip(streams, audios, strict=True):
        stream.push(audio, finished=True)
    return streams


def together(open_one: Callable[[], OpenStream], audios: list[np.ndarray], finished: bool = True) -> list[OpenStream]:
    driver, streams = Driver(longest_wait=math.inf, most_calls=len(audios)), [open_one() for _ in audios]
    found = [driver.push(stream, audio, finished) for stream, audio in zip(streams, audios, strict=True)]
    driver.finish()
    for one in found:
        one.result()
    return streams


def lags(
    open_one: Callable[[], OpenStream], audios: list[np.ndarray], clock: Callable[[], float], driver: Driver
) -> list[float]:
    """Seconds from the end of each chunk until its words are there, if all speak in real time."""
    chance = random.Random(0)
    seconds = CHUNK / SAMPLE_RATE
    arrivals = []
    for number, audio in enumerate(audios):
        begin = chance.uniform(0, seconds)
        for place, start in enumerate(range(0, audio.size, CHUNK)):
            arrivals.append((begin + (place + 1) * seconds, number, start))
    arrivals.sort(reverse=True)
    streams = [open_one() for _ in audios]
    now, waiting, found = 0.0, [], []
    while arrivals or driver.busy:
        if not driver.busy:
            now = max(now, arrivals[-1][0])
        while arrivals and arrivals[-1][0] <= now:
            arrived, number, start = arrivals.pop()
            audio = audios[number]
            last = start + CHUNK >= audio.size
            waiting.append((arrived, driver.push(streams[number], audio[start : start + CHUNK], last)))
        before = clock()
        driver.step()
        now += clock() - before
        found += [now - arrived for arrived, one in waiting if one.done()]
        waiting = [(arrived, one) for arrived, one in waiting if not one.done()]
    return found


@click.command(help=__doc__)
@click.option("--paper", is_flag=True, help="Random weights of CUNI-KIT 2023's size, and noise.")
@click.option("--streams", default=16, show_default=True, type=click.IntRange(2))
@click.option("--seconds", default=10.0, show_default=True, help="Of audio of each stream, for --paper.")
@click.option("--threads", default=2, show_default=True, type=click.IntRange(1))
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--cpu", is_flag=True, help="Measure processor time; give --threads 1.")
@click.option("--model", "folder", default=ROOT / "egs/mini/exp/en-de/st", type=click.Path(path_type=Path))
@click.option("--model-option", "pairs", multiple=True, help="NAME=VALUE, such as precision=int8.")
@click.option("--data", default=ROOT / "egs/mini/data/en-de/tst-COMMON", type=click.Path(path_type=Path))
@click.option("--languages", nargs=2, default=("en", "de"), help="Spoken and written.")
@click.option(
    "--decoding", type=click.Path(path_type=Path), help="A decoding configuration in place of blockwise search."
)
def main(
    paper: bool,
    streams: int,
    seconds: float,
    threads: int,
    rounds: int,
    cpu: bool,
    folder: Path,
    pairs: tuple[str, ...],
    data: Path,
    languages: tuple[str, str],
    decoding: Path | None,
) -> None:
    """Decode all ways in turns and compare."""
    source, target = languages
    clock = time.process_time if cpu else time.perf_counter
    print(processor())
    options = parse_options([*pairs, *(["checkpoint=model.pth"] if paper else [])])
    with tempfile.TemporaryDirectory() as temporary, engine_vs_espnet.quiet():
        if paper:
            folder = engine_vs_espnet.write_paper_model(Path(temporary))
            noise = np.random.default_rng(0).standard_normal((streams, round(seconds * SAMPLE_RATE)))
            audios = list((0.1 * noise).astype(np.float32))
        else:
            spoken = [load_audio(one.wav, one.start, one.end) for one in read_data_dir(data, target)]
            audios = [spoken[number % len(spoken)] for number in range(streams)]
        model = load_model(folder, threads, **options)
    torch.set_num_threads(threads)
    way = load_decoding(decoding) if decoding else parse_decoding(WAY, "the benchmark")

    def open_one() -> OpenStream:
        return open_stream(model, way, source, target)

    def words(found: list[OpenStream]) -> list[Any]:
        return [[(word.text, word.delay_ms) for word in one.emissions] for one in found]

    audio = sum(one.size for one in audios) / SAMPLE_RATE
    one_after_the_other(open_one, audios[:1])
    together(open_one, audios[:2])
    halves = [one[: one.size // 2] for one in audios]
    kept = together(open_one, halves, finished=False)  # takes the memory that is free, but not with the system
    used = bytes_in_use()
    more = together(open_one, halves, finished=False)
    held = (bytes_in_use() - used) / len(more) / 2**20
    del kept, more
    alone, joined, same = [], [], True
    for _ in range(rounds):
        before = clock()
        first = one_after_the_other(open_one, audios)
        alone.append(clock() - before)
        before = clock()
        second = together(open_one, audios)
        joined.append(clock() - before)
        same = same and words(first) == words(second)
        print(
            f"one after the other {alone[-1]:.2f} s, together {joined[-1]:.2f} s, for {audio:.0f} s of audio",
            flush=True,
        )
    del first, second
    few = max(1, min(streams, int(audio / statistics.median(joined) / 2)))  # half of what the machine could serve
    found = {
        "alone": lags(open_one, audios[:1], clock, Driver()),
        "among": lags(open_one, audios[:few], clock, Driver()),
        "in_turns": lags(open_one, audios[:few], clock, Driver(most_calls=1)),
    }
    result = {
        "model": "paper" if paper else str(folder),
        "streams": streams,
        "threads": threads,
        "time": "processor" if cpu else "wall",
        "speedup": statistics.median(a / b for a, b in zip(alone, joined, strict=True)),
        "same": same,
        "streams_in_real_time": [round(audio / statistics.median(times), 1) for times in (alone, joined)],
        "lag_streams": few,
        "lag_ms": {
            name: [round(1000 * value) for value in (statistics.median(times), max(times))]
            for name, times in found.items()
        },
        "MiB_per_stream": round(held, 2),
    }
    print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in result.items()}))


if __name__ == "__main__":
    run_command(main)
