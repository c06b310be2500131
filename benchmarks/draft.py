"""Time of a step of greedy search with and without a draft: a model that is driven token by token, on recordings.

benchmarks/draft.py --model egs/prompts/models/whisper-base-hf --data egs/prompts/data/it-en/dev --limit 4
"""

from __future__ import annotations

import time
from pathlib import Path

import click

from simulst.audio.read import load_audio
from simulst.commands.common import PATH, run_command
from simulst.config import parse_decoding
from simulst.data.datadir import read_data_dir
from simulst.models import load_model
from simulst.streams import open_stream


@click.command()
@click.option("--model", required=True, type=PATH)
@click.option("--data", required=True, type=PATH, help="A data directory.")
@click.option("--source-lang", default="it", show_default=True)
@click.option("--target-lang", default="en", show_default=True)
@click.option("--chunk", default=500, show_default=True, help="Milliseconds between steps.")
@click.option("--limit", default=4, show_default=True, help="Recordings.")
def main(model: Path, data: Path, source_lang: str, target_lang: str, chunk: int, limit: int) -> None:
    """CPU seconds of all steps of each recording, in alternation, and whether the words are the same."""
    loaded = load_model(str(model), 1)
    spent = {False: 0.0, True: 0.0}
    steps = same = 0
    for utterance in read_data_dir(data, target_lang)[:limit]:
        found = []
        for draft in (False, True):
            search = {"type": "joint_beam", "beam": 1, "ctc_weight": 0.0, "draft": draft}
            commit = {"type": "local_agreement", "n": 2, "whole_words": True}
            parts = {"read": {"type": "chunk", "ms": chunk}, "commit": commit, "search": search}
            stream = open_stream(loaded, parse_decoding(parts, "here"), source_lang, target_lang)
            begin = time.process_time()
            stream.push(load_audio(utterance.wav, utterance.start, utterance.end), finished=True)
            spent[draft] += time.process_time() - begin
            found.append([(word.text, word.delay_ms) for word in stream.emissions])
        steps += len(stream.reads)
        same += found[0] == found[1]
        print(f"{utterance.name}: {'same' if found[0] == found[1] else 'OTHER'} words", flush=True)
    without, drafted = (1000 * spent[draft] / steps for draft in (False, True))
    print(f"{steps} steps: {without:.0f} ms without, {drafted:.0f} ms with a draft")
    print(f"same words and times in {same} of {limit}")


if __name__ == "__main__":
    run_command(main)
