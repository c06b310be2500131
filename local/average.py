#!/usr/bin/env python
"""Stage 7: average the best checkpoints. The average with the best BLEU on dev becomes chosen.pth.

Then the CTC weight and the length bonus with which chosen.pth has the best BLEU on dev become search.yaml.

Averaging harms very short trainings, whose loss still falls, so decoding decides how many checkpoints are averaged.
For a model of several pairs, give --data, --text and --target-lang once for each pair; the mean of their BLEU decides.
"""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import Numbers, run_command
from simulst.errors import SimulstError
from simulst.training.average import CHOSEN, Dev, choose, is_chosen


@click.command(help=__doc__)
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option(
    "--data", required=True, multiple=True, type=click.Path(path_type=Path), help="Development data directory."
)
@click.option("--text", required=True, multiple=True, help="Language of its references, such as tc.de.")
@click.option("--target-lang", required=True, multiple=True, help="Target language, such as de.")
@click.option("--source-lang", default="en", show_default=True, help="Source language.")
@click.option(
    "--counts", type=Numbers(int), default="1 2 3 5", show_default=True, help="Numbers of checkpoints to average."
)
@click.option(
    "--limit", default=100, show_default=True, type=click.IntRange(1), help="Development sentences to decode."
)
@click.option("--force", is_flag=True, help="Do it again.")
def main(
    experiment: Path,
    data: tuple[Path, ...],
    text: tuple[str, ...],
    target_lang: tuple[str, ...],
    source_lang: str,
    counts: tuple[int, ...],
    limit: int,
    force: bool,
) -> None:
    """Average, decode dev and choose, unless that is done."""
    if not len(data) == len(text) == len(target_lang):
        raise SimulstError("--data, --text, --target-lang: give them equally often, once for each target language.")
    devs = [Dev(*values) for values in zip(data, text, target_lang, strict=True)]
    if not force and is_chosen(experiment, devs, counts, limit):
        print(f"{experiment / CHOSEN}: complete; --force does it again")
        return
    found = choose(experiment, devs, source_lang, list(counts), limit)
    averages = ", ".join(f"{count}: {bleu:.1f}" for count, bleu in found.averages.items())
    print(f"BLEU on dev by number of averaged checkpoints: {averages}")
    weights = f"ctc_weight {found.search.ctc_weight:g} and length_bonus {found.search.length_bonus:g}"
    print(f"BLEU on dev with {weights}: {found.searched:.1f}")


if __name__ == "__main__":
    run_command(main)
