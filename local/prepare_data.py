"""Write data directories from corpora, and combine or convert them.

python local/prepare_data.py must-c --root CORPORA --pairs en-de --out data
python local/prepare_data.py tsv --pair de-en --out data train=train.tsv dev=dev.tsv
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from corpora.combine import combine_pairs
from corpora.corpus import Choice, report
from corpora.must_c import SPLITS, check_version, prepare_must_c
from corpora.tsv import Columns, prepare_tsv
from simulst.commands.common import PATH, Group, Several, force_option, named_files, run_command, together

COLUMNS = {
    "--audio-column": "Audio file, relative to --audio.",
    "--source-column": "Transcript.",
    "--target-column": "Translation.",
    "--speaker-column": "Speaker; without it, each utterance has its own speaker.",
    "--start-column": "Where the utterance begins in its file, in seconds; without it, an utterance is a whole file.",
    "--end-column": "Where the utterance ends, in seconds; with --start-column, give this or --duration-column.",
    "--duration-column": "Length of the utterance, in seconds.",
    "--split-column": "Name of the split; with it, one table may hold several splits.",
}
"""What each column of a table holds."""
USUAL = Choice()


@click.group(cls=Group)
def main() -> None:
    """Write data directories, and combine or convert them."""


# ---- from corpora ----


def choice_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which segments are kept, and in what form. The command gets them as `choice`."""

    @functools.wraps(command)
    def with_choice(
        on_error: str,
        training: str,
        min_seconds: float,
        max_seconds: float,
        max_ratio: float,
        punctuation: str,
        **others: object,
    ) -> None:
        seconds = (min_seconds, max_seconds)
        command(choice=Choice(on_error, seconds, max_ratio, punctuation, tuple(training.split())), **others)

    options = (
        ("--on-error", click.Choice(["drop", "stop"]), USUAL.on_error, "Drop (and count) a faulty segment, or stop."),
        ("--training", str, " ".join(USUAL.training), "Training splits, which are normalised and filtered."),
        ("--min-seconds", float, USUAL.seconds[0], "Shortest training segment."),
        ("--max-seconds", float, USUAL.seconds[1], "Longest training segment."),
        ("--max-ratio", float, USUAL.max_ratio, "Limit of the ratio of lengths, relative to the median; inf: none."),
        ("--punctuation", click.Choice(["moses", "keep"]), USUAL.punctuation, "Punctuation of training text."),
    )
    made = (click.option(name, type=kind, default=usual, show_default=True, help=h) for name, kind, usual, h in options)
    return together(*made)(with_choice)


@main.command("must-c")
@click.option("--root", required=True, type=PATH, help="Folder that holds <pair>/data/<split>.")
@click.option("--out", required=True, type=PATH, help="Folder for the data directories <pair>/<split>.")
@click.option(
    "--pairs", type=Several(str), default="en-de", show_default=True, help="Language pairs, with spaces between."
)
@click.option(
    "--splits", type=Several(str), default=" ".join(SPLITS), show_default=True, help="Splits, with spaces between."
)
@click.option("--version", type=click.Choice(["1", "2", "3"]), help="Stop if the files are of another.")
@choice_options
def must_c(
    root: Path, out: Path, pairs: tuple[str, ...], splits: tuple[str, ...], version: str | None, choice: Choice
) -> None:
    """Write data directories from a corpus in MuST-C's layout."""
    for pair in pairs:
        found = check_version(root, pair, splits, version or "")
        counts = prepare_must_c(root, out, pair, splits, choice)
        print(f"{pair}, in the form of MuST-C version {found}, segments:\n{report(out, pair, counts)}")


defaults = {f"--{field.name}-column": field.default for field in fields(Columns)}
column_options = together(
    *(
        click.option(name, metavar="NAME", default=default, show_default=bool(default), help=COLUMNS[name])
        for name, default in defaults.items()
    )
)


@main.command()
@click.argument("tables", nargs=-1, required=True, metavar="SPLIT=TSV...")
@click.option("--pair", required=True, help="Language pair as source-target, such as de-en.")
@click.option("--out", required=True, type=PATH, help="Folder for the data directories <pair>/<split>.")
@click.option("--audio", type=PATH, help="Folder of the audio files [default: the table's].")
@column_options
@choice_options
def tsv(tables: tuple[str, ...], pair: str, out: Path, audio: Path | None, choice: Choice, **columns: Any) -> None:
    """Write data directories from tables and audio files.

    CoVoST and Common Voice are such corpora:

    \b
        python local/prepare_data.py tsv --pair de-en --out data --audio de/clips \\
            train=covost_v2.de_en.train.tsv dev=covost_v2.de_en.dev.tsv tst-COMMON=covost_v2.de_en.test.tsv
    """
    files = named_files(tables, "'{value}': give SPLIT=TSV, each split once, such as train=train.tsv.")
    names = Columns(**{name.removesuffix("_column"): column for name, column in columns.items()})
    print(f"{pair}, segments:\n{report(out, pair, prepare_tsv(files, out, pair, names, audio, choice))}")


# ---- from data directories ----


@main.command()
@click.argument("pairs", nargs=-1, required=True)
@click.option("--data", required=True, type=PATH, help="Folder that holds <pair>/<split>.")
@click.option("--split", required=True, help="Split to combine, such as train.")
@click.option("--out", required=True, type=PATH, help="Data directory to write.")
@click.option("--also", multiple=True, type=PATH, help="Folder of another corpus, with PAIR/SPLIT in it (repeatable).")
@force_option("Write the data directory again.")
def combine(pairs: tuple[str, ...], data: Path, split: str, out: Path, also: tuple[Path, ...], force: bool) -> None:
    """Combine language pairs for a multilingual model, or corpora."""
    combine_pairs(data, pairs, split, out, force, also)


@main.command()
@click.option("--data", required=True, type=PATH, help="Data directory.")
@click.option("--out", required=True, type=PATH, help="Folder for the audio and the texts.")
@click.option(
    "--texts", required=True, type=Several(str), help="Languages of the text files, such as 'tc.de lc.rm.en'."
)
@click.option("--speeds", type=Several(float), default="1.0", show_default=True, help="Factors of speed perturbation.")
@force_option("Write the folder again.")
def dump(data: Path, out: Path, texts: tuple[str, ...], speeds: tuple[float, ...], force: bool) -> None:
    """Cut the segments out of their recordings, for ESPnet.

    Copies at other speeds are more training data.
    """
    from corpora.dump import dump_audio  # it needs kaldiio

    dump_audio(data, out, texts, speeds, force)


if __name__ == "__main__":
    run_command(main)
