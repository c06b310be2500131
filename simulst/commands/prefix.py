"""`simulst prefix`: prefix alignment and the boundary predictor (NAIST at IWSLT 2022)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from simulst.commands.common import (
    PATH,
    Group,
    Positive,
    Several,
    cluster_options,
    force_option,
    language_options,
    model_option,
    target_lang_option,
    task_of,
)

COUNT = click.IntRange(1)


@click.group(cls=Group)
def prefix() -> None:
    """Align text with prefixes or chunks of speech, and train on it."""


@prefix.command()
@click.option("--data", required=True, type=PATH, help="Data directory.")
@click.option("--model", required=True, help="The offline model's experiment folder.")
@model_option
@language_options
@click.option("--out", required=True, type=PATH, help="Folder for the pairs.")
@click.option("--tau", default=100, type=click.IntRange(1), help="Frames of 10 ms by which prefixes grow.")
@click.option("--beam", default=10, type=click.IntRange(1), help="Beam size; the decoder searches without CTC.")
@click.option("--open-end", is_flag=True, help="Leave out the full stop after a prefix's translation.")
@click.option("--limit", default=0, show_default=False, type=click.IntRange(0), help="Only the first N utterances.")
@cluster_options
@force_option("Extract them again.")
def extract(
    data: Path,
    model: str,
    model_options: tuple[str, ...],
    source_lang: str,
    target_lang: str,
    out: Path,
    jobs: int,
    scheduler: str | None,
    slurm: bool,
    force: bool,
    **options: Any,
) -> None:
    """Extract prefix pairs with an offline model."""
    from simulst.machine.cluster import Cluster
    from simulst.prefix.extract import Options, extract
    from simulst.prefix.pairs import PREFIXES

    task = task_of(model, source_lang, target_lang, model_options, None)
    counts = extract(task, data, out, Options(**options), Cluster(jobs, scheduler, slurm), force)
    print(f"{out / PREFIXES}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))


@prefix.command()
@click.option("--data", required=True, type=PATH, help="Data directory that the pairs were extracted from.")
@click.option("--prefixes", required=True, type=PATH, help="Its prefixes.jsonl (prefix extract).")
@target_lang_option
@click.option("--out", required=True, type=PATH, help="Data directory to write.")
@click.option(
    "--max-ratio", type=Positive(), help="Leave out pairs of more frames per word (80, 40 and 20 in the paper)."
)
@click.option("--tokens", type=PATH, help="The model's tokens, which --max-ratio counts for zh and ja.")
@click.option("--whole", is_flag=True, help="Put the whole utterances beside the pairs.")
@force_option("Write the data directory again.")
def pairs(data: Path, prefixes: Path, out: Path, target_lang: str, **options: Any) -> None:
    """Write prefix pairs as a data directory for training."""
    from simulst.prefix.pairs import write_pairs

    write_pairs(data, prefixes, out, target_lang, **options)


@prefix.command()
@click.option("--data", required=True, type=PATH, help="Data directory.")
@click.option("--model", required=True, help="ESPnet's with a CTC layer for the translation, or Hugging Face's.")
@model_option
@click.option("--source-lang", help="Language spoken; it is needed for models other than ESPnet's.")
@target_lang_option
@click.option("--out", required=True, type=PATH, help="File for the times (CTM).")
def times(
    data: Path, model: str, model_options: tuple[str, ...], source_lang: str | None, target_lang: str, out: Path
) -> None:
    """Find when the references' words are spoken.

    A model aligns them with the speech, by its CTC layer or by attention.
    """
    from simulst.errors import SimulstError
    from simulst.models.espnet.model import ESPnet
    from simulst.models.registry import load_model, parse_options
    from simulst.prefix.times import by_attention, by_ctc, write_times

    loaded = load_model(model, **parse_options(model_options))
    if isinstance(loaded, ESPnet):
        align = by_ctc(loaded)
    elif source_lang:
        align = by_attention(loaded, model, source_lang, target_lang)
    else:
        raise SimulstError(f"{model}: is no ESPnet model with a CTC layer; give --source-lang, to align by attention.")
    write_times(align, data, out, target_lang)


@prefix.command()
@click.option("--data", required=True, type=PATH, help="Data directory.")
@target_lang_option
@click.option("--out", required=True, type=PATH, help="Data directory to write.")
@click.option("--prefixes", type=PATH, help="Align by these prefix pairs (prefix extract).")
@click.option("--times", type=PATH, help="Align by times of words (CTM, prefix times): of the target's words.")
@click.option("--links", type=PATH, help="Word alignments (Pharaoh's format); --times are of the source's words then.")
@click.option("--first-ms", required=True, type=Positive(), help="Length of the first chunk, in ms.")
@click.option("--ms", required=True, type=Positive(), help="Length of the other chunks, in ms.")
@click.option(
    "--lags",
    type=Several(int, zero=True),
    default="0 1 2",
    help="Lags, in chunks, which utterances have in turn.",
)
@force_option("Write the data directory again.")
def chunks(
    data: Path,
    target_lang: str,
    out: Path,
    prefixes: Path | None,
    times: Path | None,
    links: Path | None,
    first_ms: float,
    ms: float,
    lags: tuple[int, ...],
    force: bool,
) -> None:
    """Write chunk-aligned data for training.

    A model learns from it what to write after each chunk of speech (docs/learn.md).
    """
    from simulst.data.datadir import text_file
    from simulst.errors import SimulstError
    from simulst.files.table import read_table
    from simulst.prefix.chunks import Grid, from_prefixes, from_times, write_chunks

    if (prefixes is None) == (times is None) or (links and times is None):
        raise SimulstError("give --prefixes, or --times, or --links and --times: how the words are aligned.")
    if prefixes is not None:
        aligned = from_prefixes(prefixes, target_lang)
    else:
        assert times is not None
        texts = read_table(text_file(data, target_lang), allow_empty=True)
        aligned = from_times(times, texts, target_lang, links)
    write_chunks(data, aligned, out, target_lang, Grid(first_ms, ms), lags, force)


@prefix.command()
@click.option("--data", required=True, type=PATH, help="Data directory of the training utterances.")
@click.option("--prefixes", required=True, type=PATH, help="Their prefixes.jsonl (prefix extract).")
@click.option("--valid-data", required=True, type=PATH, help="Data directory of held-out utterances.")
@click.option("--valid-prefixes", required=True, type=PATH, help="Their prefixes.jsonl.")
@click.option("--out", required=True, type=PATH, help="Folder for the training.")
@click.option("--mels", default=80, help="Log-mel features per frame.")
@click.option("--channels", default=32, help="Channels of the two convolutions.")
@click.option("--embedding", default=256, help="Input size of the LSTM.")
@click.option("--hidden", default=512, help="State size of the LSTM.")
@click.option("--learning-rate", default=1e-4, type=Positive(), help="Adam's peak learning rate.")
@click.option("--warmup", default=4000, type=COUNT, help="Updates until the peak learning rate.")
@click.option("--patience", default=8, type=COUNT, help="Stop after N epochs without a lower loss.")
@click.option("--batch-frames", default=12000, type=COUNT, help="Frames (10 ms) per batch.")
@click.option("--max-epochs", default=200, type=COUNT, help="Stop after N epochs.")
@click.option("--seed", default=0, type=click.IntRange(0), help="Random seed.")
@force_option("Delete the training in --out, and begin again.")
def predictor(
    data: Path, prefixes: Path, valid_data: Path, valid_prefixes: Path, out: Path, force: bool, **options: Any
) -> None:
    """Train the boundary predictor, and score it on held-out pairs."""
    from simulst.policy.boundary_predictor import Sizes
    from simulst.prefix.training import SCORES, Options, train

    sizes = Sizes(**{name: options.pop(name) for name in ("mels", "channels", "embedding", "hidden")})
    train(data, prefixes, valid_data, valid_prefixes, out, Options(sizes, **options), force)
    _show(json.loads((out / SCORES).read_text(encoding="utf-8")))


@prefix.command()
@click.option("--data", required=True, type=PATH, help="Data directory that the pairs were extracted from.")
@click.option("--prefixes", required=True, type=PATH, help="Its prefixes.jsonl (prefix extract).")
@click.option("--predictor", required=True, type=PATH, help="The trained predictor's file, predictor.pth.")
@click.option("--out", required=True, type=PATH, help="File for the scores (JSON).")
def score(data: Path, prefixes: Path, predictor: Path, out: Path) -> None:
    """Score a boundary predictor on prefix pairs.

    The paper's table 3 has those of tst-COMMON.
    """
    from simulst.prefix.training import score

    _show(score(predictor, data, prefixes, out))


def _show(scores: dict[str, Any]) -> None:
    rows = {"outputs": scores["frames"], **{f"pieces, {t}": row for t, row in scores["pieces"].items()}}
    print(f"{'':12}" + "".join(f"{name:>11}" for name in scores["frames"]))
    for name, row in rows.items():
        print(f"{name:12}" + "".join(f"{value:11.3f}" for value in row.values()))
