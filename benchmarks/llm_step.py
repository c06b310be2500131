"""CPU time of a step of a language model that translates, or of a speech LLM: with what was read before kept, and anew.

benchmarks/llm_step.py --model egs/voices/models/qwen-0.5B --ctranslate2 qwen-0.5B-int8
benchmarks/llm_step.py --speech egs/mini/exp/en-de/speech_llm/model --recording talk.wav
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from simulst.audio.read import load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.calls import run_alone, steps_of
from simulst.commands.common import PATH, Several, run_command
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.models.cascade.ctranslate2 import CTranslate2Text
from simulst.models.cascade.llm import LLM
from simulst.opening import Opening
from simulst.policy.context import View
from simulst.policy.stop import MaxTokens, Stopping
from simulst.search import BeamSearch, JointBeamSearch

TEXT = """When the committee met again in the spring, its members agreed that the new bridge should be built closer to
the old harbour, because most of the people who cross the river every morning work there, and because the road that
leads to it is wide enough for two buses, while the other one, which was repaired last year, is not."""
ANSWER = """Als der Ausschuss im Frühjahr wieder zusammenkam, waren sich seine Mitglieder einig, dass die neue Brücke
näher am alten Hafen gebaut werden sollte, weil die meisten Menschen, die den Fluss jeden Morgen überqueren, dort
arbeiten, und weil die Straße, die dorthin führt, breit genug für zwei Busse ist, die andere aber nicht."""
NEW = 4  # tokens that a step writes
GROWTH = 0.5  # seconds of audio that a step of a speech LLM brings
GREEDY = JointBeamSearch(beam=1, ctc_weight=0.0, max_length_ratio=3.0)


class After(Stopping):
    """A STOP that ends a search after NEW tokens."""

    options = MaxTokens(NEW)

    def __init__(self) -> None:
        """It needs nothing of a stream."""

    def ends(self, view: View) -> bool:
        return len(view.tokens) >= NEW


@click.command()
@click.option("--model", type=PATH, help="A language model that chats, in Hugging Face's form.")
@click.option("--ctranslate2", type=PATH, help="The same in CTranslate2's form, for tokens a second.")
@click.option("--speech", type=PATH, help="A speech LLM in Hugging Face's form.")
@click.option("--recording", type=PATH, help="What it hears.")
@click.option(
    "--lengths", type=Several(int), default="10 20 40", show_default=True, help="Words or seconds of the source."
)
@click.option("--answers", type=Several(int), default="5 20 40", show_default=True, help="Tokens written before.")
@click.option("--repeat", default=5, show_default=True, help="Times that each step is done; the median counts.")
@click.option("--target-lang", default="de", show_default=True, help="What a speech LLM writes; it hears English.")
def main(
    model: Path | None,
    ctranslate2: Path | None,
    speech: Path | None,
    recording: Path | None,
    lengths: tuple[int, ...],
    answers: tuple[int, ...],
    repeat: int,
    target_lang: str,
) -> None:
    """Tables of milliseconds of one thread: a step that reads on, and one that reads everything."""
    if model is None and (speech is None or recording is None):
        raise SimulstError("give --model, or --speech and --recording.")
    if model is not None:
        opened = LLM(model=str(model), draft=False).load(model / "cascade.yaml", 1)
        first: Any = opened(Opening("en", "de"))
        spelled = first._loaded.spelled(ANSWER)

        def read(one: Any, words: float, written: int) -> None:
            text = " ".join(TEXT.split()[: int(words)])
            run_alone(one.search(text, spelled[:written], GREEDY, After()))

        names = "words", "same source", "a word more"
        table(names, lambda: opened(Opening("en", "de")), read, 1, lengths, answers, repeat)
        if ctranslate2 is not None:
            other = CTranslate2Text(model=str(ctranslate2), tokenizer=str(model)).load(model / "cascade.yaml", 1)
            for name, one, options in (("transformers", opened, GREEDY), ("CTranslate2", other, BeamSearch(beam=1))):
                print(f"{name}: {tokens_a_second(one, options):.1f} tokens a CPU second, the prompt included")
    if speech is not None and recording is not None:
        loaded, samples = load_model(str(speech), threads=1), load_audio(recording)
        spelled_here = loaded.session(Opening("en", target_lang)).spell(ANSWER)

        def hear(one: Any, seconds: float, written: int) -> None:
            new = samples[one.length : round(seconds * SAMPLE_RATE)]
            if new.size:
                run_alone(steps_of(one.extend(new)))
            run_alone(steps_of(one.search(spelled_here[:written], GREEDY, After())))

        names = "seconds", "same audio", f"{GROWTH:g} s more"
        table(names, lambda: loaded.session(Opening("en", target_lang)), hear, GROWTH, lengths, answers, repeat)


def table(
    names: tuple[str, str, str],
    fresh: Callable[[], Any],
    go: Callable[[Any, float, int], None],
    growth: float,
    lengths: tuple[int, ...],
    answers: tuple[int, ...],
    repeat: int,
) -> None:
    """Steps that write NEW tokens, after a step that saw the same source, after one that saw less, and after none.

    go: searches a source of some length, after so many tokens. growth: what a step has more of it.
    """
    length, same, more = names
    print(f"| {length} | tokens before | {same} (ms) | {more} (ms) | nothing kept (ms) |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for size, written in itertools.product(lengths, answers):
        found = []
        for seen in (size, size - growth, 0):
            spent = []
            for _ in range(repeat):
                one = fresh()
                if seen:
                    go(one, seen, max(0, written - NEW))
                begin = time.process_time()
                go(one, size, written)
                spent.append(1000 * (time.process_time() - begin))
            found.append(f"{statistics.median(spent):.0f}")
        print(f"| {size} | {written} | {' | '.join(found)} |", flush=True)


def tokens_a_second(opened: Any, options: Any) -> float:
    """Of a greedy search to the end of the sentence."""
    begin = time.process_time()
    [best] = run_alone(opened(Opening("en", "de")).search(" ".join(TEXT.split()), (), options, None))
    return len(best.tokens) / (time.process_time() - begin)


if __name__ == "__main__":
    run_command(main)
