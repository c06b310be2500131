"""Batched prefix extraction against decoding each prefix by itself, with the same model, search and pairs.

    python benchmarks/prefix_extraction.py [--model egs/mini/exp/en-de/offline] [--utterances 60] [--beam 10]

The slow variants encode each prefix from its start and search it with the cached decoder, one prefix after the other.
"single" ends a search once its result can't change any more, as simulst does. "single_to_the_end" goes on until
ESPnet's end detection stops it. The batched variant also stops a search once it can't give a pair. All variants take
turns on groups of utterances of about the same length. The last line is JSON.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import click
import torch
from tqdm import tqdm

from simulst.audio.read import load_audio
from simulst.audio.units import FRAME
from simulst.calls import run_alone
from simulst.commands.common import run_command
from simulst.data.datadir import read_data_dir
from simulst.hypotheses import Tokens
from simulst.machine.processor import processor
from simulst.models import load_model
from simulst.models.espnet.model import ESPnet
from simulst.opening import Opening
from simulst.prefix.align import Question, Translator, align
from simulst.prefix.extract import shards_of
from simulst.search import JointBeamSearch
from simulst.search import beam as beam_search
from simulst.search.beam import JointSearch, joint_beam_search

ROOT = Path(__file__).resolve().parent.parent
FILE = click.Path(path_type=Path)


@click.command(help=__doc__)
@click.option("--model", type=FILE, default=ROOT / "egs/mini/exp/en-de/offline", show_default=True)
@click.option("--data", type=FILE, default=ROOT / "egs/mini/data/en-de/train", show_default=True)
@click.option("--checkpoint", default="", help="Weights file of the model; empty: the averaged or best one.")
@click.option("--utterances", default=60, show_default=True, type=click.IntRange(1))
@click.option("--beam", default=10, show_default=True, type=click.IntRange(1))
@click.option("--tau", default=100, show_default=True, type=click.IntRange(1))
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1))
@click.option("--open-end", is_flag=True, help="Without the full stop after a prefix, as in the mini recipe.")
def main(
    model: Path, data: Path, checkpoint: str, utterances: int, beam: int, tau: int, threads: int, open_end: bool
) -> None:
    """Measure all variants and compare their results."""
    print(processor())
    espnet = load_model(model, threads=threads, checkpoint=checkpoint)
    assert isinstance(espnet, ESPnet)
    options = JointBeamSearch(beam=beam, ctc_weight=0.0)
    everything = read_data_dir(data, "tc.de")
    some = everything[:: max(1, len(everything) // utterances)][:utterances]
    seconds = {"batched": 0.0, "single": 0.0, "single_to_the_end": 0.0}
    prefixes = same = pairs = 0
    are_beaten = beam_search._are_beaten
    for shard in tqdm(shards_of(some), unit="shard"):
        audio = [load_audio(u.wav, u.start, u.end) for u in shard]
        frames = [one.size // FRAME for one in audio]

        def one_by_one(row: int, end: int, forced: Tokens, audio: list = audio, frames: list = frames) -> Tokens:
            session = espnet.session(Opening("en", "de"))
            session.extend(audio[row] if end == frames[row] else audio[row][: end * FRAME], final=True)
            run_alone(session._encoding.encode())
            decoder: Any = espnet.decoder
            search = JointSearch(decoder, options, espnet.vocabulary.sos, espnet.vocabulary.eos)
            for part in session._encoding.parts:
                search.append(part.frames)
            return run_alone(joint_beam_search(search, forced))[0].tokens

        started = time.perf_counter()
        batched = align(Translator(espnet, "de", audio, tau, options, open_end), frames, tau, espnet.text, open_end)
        seconds["batched"] += time.perf_counter() - started
        found = {}
        for name, cut in (("single", are_beaten), ("single_to_the_end", lambda *_: False)):
            with mock.patch.object(beam_search, "_are_beaten", cut):
                started = time.perf_counter()
                translate = functools.partial(_each, one_by_one)
                found[name] = align(translate, frames, tau, espnet.text, open_end)
                seconds[name] += time.perf_counter() - started
        single = found["single"]
        prefixes += sum((count - 1) // tau for count in frames)
        pairs += sum(len(one.pairs) for one in single)
        same += sum(a == b == c for a, b, c in zip(batched, *found.values(), strict=True))
    result = {
        "prefixes": prefixes,
        "pairs": pairs,
        "prefixes_per_second": prefixes / seconds["batched"],
        "prefixes_per_second_single": prefixes / seconds["single"],
        "speedup": seconds["single"] / seconds["batched"],
        "speedup_to_the_end": seconds["single_to_the_end"] / seconds["batched"],
        "same_alignments": f"{same} of {len(some)}",
        "threads": torch.get_num_threads(),
    }
    for name, value in result.items():
        print(f"{name}: {value:.2f}" if isinstance(value, float) else f"{name}: {value}")
    print(json.dumps(result))


def _each(translate: Callable[[int, int, Tokens], Tokens], questions: Sequence[Question]) -> list[Tokens]:
    return [translate(one.row, one.end, one.forced) for one in questions]


if __name__ == "__main__":
    run_command(main)
