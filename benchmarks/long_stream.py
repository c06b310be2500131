"""A long stream through a model of each family: do time and memory stay flat, and is the text as good as of segments?

    python benchmarks/long_stream.py --family espnet [--minutes 180] [--pause 0.25]

The recordings of a data directory repeat, with silence between, until there are enough minutes. They are one stream,
which is cut at the pauses that the voice activity detector finds, or by attention. For some minutes this prints the
computation time of the (at most) ten minutes before, per second of audio, and the memory. Time is processor time.

With --compare, the model then translates the segments of the same recordings one by one. Both texts are scored by
recording, and segments with the same text in both are counted. The last line is JSON.

espnet: the model of egs/mini. whisper: Whisper base on CTranslate2, on egs/prompts' Spanish. cascade: the same model
writes Spanish, and a command that changes nothing takes the translator's part (its own time does not count).
huggingface: a tiny Whisper with random weights, as for tests; its text means nothing.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
import yaml
from tqdm import tqdm

from simulst.audio.read import load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.commands.common import Several, run_command
from simulst.config import parse_decoding
from simulst.data.datadir import Utterance, read_data_dir
from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.machine.processor import processor
from simulst.measure.quality import bleu
from simulst.models import load_model
from simulst.opening import Opening
from simulst.runs.decode import decode_utterance
from simulst.session import Model
from simulst.streams import OpenStream, open_stream

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = {
    "read": {"type": "block"},
    "stop": {"type": "ctc", "threshold": 0.0},
    "commit": {"type": "all"},
    "search": {"type": "ibwbs"},
}
CHUNKS = {
    "read": {"type": "chunk", "ms": 1000},
    "commit": {"type": "local_agreement", "n": 2, "whole_words": True},
}
PUSH = SAMPLE_RATE // 5  # samples per push
BETWEEN = 3.0  # seconds of silence between recordings, enough for all words of one to be written
OVER = 10  # minutes that a figure is the mean of, if there are so many


@dataclass(frozen=True)
class Setting:
    """What a family is tried with: its options, the decoding configuration, and the test data."""

    model: Path
    options: dict[str, Any]
    decoding: dict[str, Any]
    data: Path
    text: str  # the language of the references' file
    languages: tuple[str, str]
    missing: str  # the command that makes the model


def setting_of(family: str, experiment: Path | None, data: Path | None, window: float, made: Path) -> Setting:
    """made: a folder for what is made here. The other arguments are options of the command."""
    if family == "espnet":
        return Setting(
            experiment or ROOT / "egs/mini/exp/en-de/st",
            {"checkpoint": "chosen.pth", "window": window},
            BLOCKS,
            data or ROOT / "egs/mini/data/en-de/tst-COMMON",
            "tc.de",
            ("en", "de"),
            "./run.sh --recipe mini --stop-stage choose",
        )
    whisper = experiment or ROOT / "egs/prompts/models/whisper-base"
    model = whisper
    if family == "huggingface":
        model = made / "tiny"
        sys.path += [str(ROOT / "tests"), str(ROOT / "tests/models")]
        import tiny_huggingface

        tiny_huggingface.write(model, "whisper")
    if family == "cascade":
        recogniser = {"model": str(whisper.resolve()), "decoding": CHUNKS}
        model = made / "cascade.yaml"
        sys.path.append(str(ROOT / "tests/models/cascade"))  # of program.py
        model.write_text(
            yaml.safe_dump({"recogniser": recogniser, "translator": {"type": "program:Program", "command": "cat"}})
        )
    return Setting(
        model,
        {},
        CHUNKS,
        data or ROOT / "egs/prompts/data/es-en/tst",
        "en",
        ("es", "en"),
        "./run.sh --recipe prompts --only pretrain",
    )


@click.command(help=__doc__)
@click.option(
    "--family",
    default="espnet",
    type=click.Choice(["espnet", "whisper", "huggingface", "cascade"]),
    show_default=True,
)
@click.option("--minutes", type=click.FloatRange(0.1), default=60.0, show_default=True)
@click.option("--at", type=Several(float), default="1 10 60 180", show_default=True, help="Minutes to tell of.")
@click.option(
    "--window",
    type=click.FloatRange(0.0),
    default=30.0,
    show_default=True,
    help="Seconds of speech that the decoder of --family espnet sees; 0: all.",
)
@click.option(
    "--pause",
    type=click.FloatRange(0.0),
    default=None,
    help="Seconds of silence at which the stream is cut; 0: it is not cut. [0.25 for espnet, 0.5 for the others]",
)
@click.option("--words", type=click.IntRange(1), default=None, help="Cut by attention instead: so many words stay.")
@click.option("--compare", is_flag=True, help="Also translate the segments one by one, and compare the texts.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--experiment", default=None, type=click.Path(path_type=Path), help="Another model of the family.")
@click.option("--data", default=None, type=click.Path(path_type=Path), help="Another data directory.")
def main(
    family: str,
    minutes: float,
    at: tuple[float, ...],
    window: float,
    pause: float | None,
    words: int | None,
    compare: bool,
    threads: int,
    experiment: Path | None,
    data: Path | None,
) -> None:
    """Decode the stream, then the segments."""
    print(processor())
    if family == "huggingface" and experiment is not None:
        raise SimulstError("--experiment: --family huggingface makes its own tiny model; leave it out.")
    with tempfile.TemporaryDirectory() as folder:
        setting = setting_of(family, experiment, data, window, Path(folder))
        needed = setting.model / ("chosen.pth" if family == "espnet" else "")
        if not needed.exists():
            raise SimulstError(f"{needed}: missing; run {setting.missing}.")
        if pause is None:
            pause = 0.25 if family == "espnet" else 0.5
        options = dict(setting.options) if family == "cascade" else {**setting.options, "threads": threads}
        segment = {"type": "pause", "seconds": pause} if pause else {"type": "none"}
        if words is not None:
            segment = {"type": "attention", "words": words}
        measure(setting, options, minutes, sorted(at), segment, compare)


def measure(
    setting: Setting,
    options: dict[str, Any],
    minutes: float,
    at: list[float],
    segment: dict[str, Any],
    compare: bool,
) -> None:
    """Decode the stream and print the figures."""
    recordings: dict[Path, list[Utterance]] = defaultdict(list)
    for utterance in read_data_dir(setting.data, setting.text):
        recordings[utterance.wav].append(utterance)
    model = load_model(setting.model, **options)
    slides = count_slides(model, setting.languages)
    stream = open_stream(
        model, parse_decoding({**setting.decoding, "segment": segment}, "benchmark"), *setting.languages
    )
    order: list[Path] = []
    ends: list[float] = []  # where the recordings end in the stream, in ms
    spent, megabytes = [0.0], list[float]()  # computation in s, and memory, after so many minutes
    for second, now in decoded(stream, list(recordings), minutes, order, ends):
        if second % 60 == 0:
            spent.append(now)
            megabytes.append(psutil.Process().memory_info().rss / 2**20)
            if (minute := len(megabytes)) in at:
                over = min(OVER, minute)
                rtf = (now - spent[minute - over]) / (60 * over)
                tqdm.write(f"minute {minute}: {rtf:.4f} s of computation a second, memory {megabytes[-1]:.0f} MB")
    print(f"all {second} s: {now / second:.4f} s of computation a second")
    result: dict[str, Any] = {
        "model": setting.model.name,
        "minutes": minutes,
        "segment": segment,
        "seconds_by_minute": [round(after - before, 3) for before, after in pairwise(spent)],
        "MB_by_minute": [round(value) for value in megabytes],
        "peak_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "slides": len(slides),
        "words": len(stream.emissions),
        "utterances": len(stream.segments),
    }
    if compare:
        result |= compared(stream, setting, options, recordings, order, ends)
    print(json.dumps(result))


def decoded(
    stream: OpenStream, recordings: list[Path], minutes: float, order: list[Path], ends: list[float]
) -> Iterator[tuple[int, float]]:
    """Decode a stream of so many minutes. Yields each second of audio that is done, and the computation time so far.

    order, ends: get the recordings, and where they end in the stream (ms).
    """
    pushed, spent, total = 0, 0.0, minutes * 60 * SAMPLE_RATE
    with tqdm(total=round(minutes * 60), unit="s of audio", mininterval=5) as progress:
        while pushed < total:
            order.append(recordings[len(order) % len(recordings)])
            silence = np.random.default_rng(len(order)).normal(0, 1e-4, round(BETWEEN * SAMPLE_RATE))
            audio = np.concatenate([load_audio(order[-1]), silence.astype(np.float32)])
            for start in range(0, audio.size, PUSH):
                piece = audio[start : start + PUSH]
                done, pushed = pushed // SAMPLE_RATE, pushed + piece.size
                started = time.process_time()  # processor time, which other processes change little
                stream.push(piece, finished=pushed >= total and start + PUSH >= audio.size)
                spent += time.process_time() - started
                if pushed // SAMPLE_RATE > done:
                    progress.update()
                    yield pushed // SAMPLE_RATE, spent
            ends.append(pushed * 1000 / SAMPLE_RATE)


def compared(
    stream: OpenStream,
    setting: Setting,
    options: dict[str, Any],
    recordings: dict[Path, list[Utterance]],
    order: list[Path],
    ends: list[float],
) -> dict[str, Any]:
    """The text of the stream beside that of its segments alone."""
    plain = {name: value for name, value in options.items() if name != "window"}
    alone, decoding = load_model(setting.model, **plain), parse_decoding(setting.decoding, "benchmark")
    texts = {
        recording: [
            decode_utterance(alone, setting.languages, utterance, 0, [decoding])[0].prediction
            for utterance in recordings[recording]
        ]
        for recording in tqdm(dict.fromkeys(order), desc="segments alone")
    }
    words: list[list[str]] = [[] for _ in order]
    for emission in stream.emissions:
        words[int(np.searchsorted(ends, min(emission.delay_ms, ends[-1])))].append(emission.text.strip())
    references = [" ".join(utterance.reference for utterance in recordings[r]) for r in order]
    target = setting.languages[1]
    scores = {
        "stream": bleu([" ".join(w) for w in words], references, target).score,
        "segments": bleu([" ".join(texts[r]) for r in order], references, target).score,
    }
    same = [same_texts(w, [text.split() for text in texts[r]]) for w, r in zip(words, order, strict=True)]
    there = sum(len(recordings[r]) for r in order)
    print(f"BLEU by recording: one stream {scores['stream']:.1f}, segments alone {scores['segments']:.1f}")
    print(f"segments with the same text as alone: {100 * sum(same) / there:.1f} %")
    return {"BLEU": scores, "same_share": sum(same) / there, "sentences": there}


def count_slides(model: Model, languages: tuple[str, str]) -> list[int]:
    """A list that grows by one item whenever a window slides: how many tokens have left it so far."""
    slides: list[int] = []
    session: Any = type(model.session(Opening(*languages)))
    slide = session.slide

    def counted(self: Any, committed: Tokens) -> None:
        slide(self, committed)
        slides.append(self.evicted)

    session.slide = counted
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
