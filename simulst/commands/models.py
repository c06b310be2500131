"""`simulst models`: find the heads of a model that align text and source."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.commands.common import PATH, Group, language_options
from simulst.errors import SimulstError


@click.group(cls=Group)
def models() -> None:
    """Find heads that align."""


@models.command("heads")
@click.option("--model", required=True, type=PATH, help="A cascade's file, for its translator; or a speech model.")
@language_options
@click.option("--alignments", type=PATH, help="Pairs with word alignments (.json), or Pharaoh's format.")
@click.option("--source", type=PATH, help="The source, a line for each pair; without --alignments, NLTK aligns.")
@click.option("--target", type=PATH, help="The same of the translations.")
@click.option("--pairs", "most", default=60, type=click.IntRange(min=2), help="Look at so many.")
@click.option("--times", type=PATH, help="For a speech model: CTM, the times of the words that it writes.")
@click.option("--audio", type=PATH, help="With --times: the folder of the recordings, or a data directory.")
@click.option("--count", default=6, type=click.IntRange(min=1), help="How many heads are chosen.")
def heads(
    model: Path,
    source_lang: str,
    target_lang: str,
    alignments: Path | None,
    source: Path | None,
    target: Path | None,
    times: Path | None,
    audio: Path | None,
    most: int,
    count: int,
) -> None:
    """Find the heads that align text and source.

    They are written beside the model (alignment_heads.json), where STOP finds them. A translator's are those of its
    cascade's chat.
    """
    from simulst.data.datadir import read_data_dir
    from simulst.models import load_model
    from simulst.models.aligned_pairs import align_pairs, read_pairs, read_pharaoh, spoken_pairs, spread
    from simulst.models.cascade.loading import open_translator
    from simulst.models.cascade.transcript import read_words
    from simulst.models.heads import HEADS, Shows, Spoken, rank
    from simulst.models.huggingface.folder import find_folder

    shows: Shows
    languages = source_lang, target_lang
    if times and audio and not (alignments or source or target):
        utterances = read_data_dir(audio, target_lang) if (audio / "wav.scp").is_file() else ()
        parts = {one.name: (one.wav, one.start, one.end) for one in utterances}
        pairs = spread(spoken_pairs(read_words(times, target_lang), audio, parts), most)
        shows, folder = Spoken(load_model(model), languages, parts).seen, find_folder(model)
    elif times or audio or not (alignments or source):
        raise SimulstError(
            "give --alignments, or --source and --target, for a cascade's translator; --times and --audio for a speech "
            "model."
        )
    elif (source is None) != (target is None) or (alignments and (source is None) != (alignments.suffix == ".json")):
        raise SimulstError("--alignments is a .json file, or stands with --source and --target.")
    else:
        if source and target:
            pairs = read_pharaoh(alignments, source, target) if alignments else align_pairs(source, target, languages)
        else:
            assert alignments is not None
            pairs = read_pairs(alignments)
        pairs = spread([pair for pair in pairs if pair.links], most)
        translation, folder = open_translator(model, *languages)
        shows = translation.seen
    found = rank(shows, pairs, count)
    found.write(folder / HEADS)
    for (layer, head), score in zip(found.heads, found.scores, strict=True):
        click.echo(f"layer {layer} head {head}: {score:.1%}")
    click.echo(
        f"their mean: {found.mean:.1%} of {found.tokens} tokens of {found.pairs} pairs attend most to an aligned place"
    )
    if found.pairs < len(pairs):
        click.echo(
            f"left out: {len(pairs) - found.pairs} pairs in which nothing is aligned, or which the model's tokens "
            "can't spell"
        )
    click.echo(
        f"halves: of the best heads of one half of the pairs, {found.same:.0%} are among the best of the other, where "
        f"they reach {found.other:.1%}"
    )
    click.echo(f"written: {folder / HEADS}")
