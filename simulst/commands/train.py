"""`simulst train`: the steps of a training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simulst.commands.common import PATH, Group, Positive, Several, force_option, target_lang_option, together

if TYPE_CHECKING:
    from simulst.training.espnet import Training

KINDS = ("unigram", "bpe", "char")


@click.group(cls=Group)
def train() -> None:
    """Train with ESPnet, or fine-tune a model of Hugging Face's."""


@train.command()
@click.argument("texts", nargs=-1, required=True, type=PATH)
@click.option("--out", required=True, type=PATH, help="Folder for bpe.model and tokens.txt.")
@click.option("--size", default=500, type=click.IntRange(1), help="Pieces.")
@click.option("--kind", default="unigram", type=click.Choice(KINDS), help="How a text is cut into pieces.")
@click.option("--symbol", "symbols", multiple=True, help="A token that is never split, such as <2de> (repeatable).")
@force_option("Learn them again.")
def tokens(texts: tuple[Path, ...], out: Path, size: int, kind: str, symbols: tuple[str, ...], force: bool) -> None:
    """Learn the tokens of a model from text files."""
    from simulst.training.tokens import train_tokens

    train_tokens(texts, out, size, kind, symbols, force)


@train.command()
@click.argument("old", type=PATH, metavar="TOKENS")
@click.option("--model", required=True, type=PATH, help="Weights of the model that has these tokens.")
@click.option("--symbol", "symbols", required=True, multiple=True, help="A new token, such as <wait> (repeatable).")
@click.option("--out", required=True, type=PATH, help="Folder for the tokens, and for begin.pth, the weights.")
@force_option("Make them again.")
def extend(old: Path, model: Path, symbols: tuple[str, ...], out: Path, force: bool) -> None:
    """Add tokens to those of a trained model."""
    from simulst.training.tokens import extend_tokens

    extend_tokens(old, model, out, symbols, force)


# ---- ESPnet ----


training_options = together(
    click.option("--task", type=click.Choice(["st", "asr"]), default="st", help="Translation or recognition."),
    click.option("--config", required=True, type=PATH, help="ESPnet's training configuration."),
    click.option("--train", required=True, type=PATH, help="Training data (local/prepare_data.py dump)."),
    click.option("--valid", required=True, type=PATH, help="Development data (the same)."),
    click.option("--text", required=True, help="Language of the target's text file, such as tc.de."),
    click.option("--tokens", required=True, type=PATH, help="Target tokens (train tokens)."),
    click.option("--source-text", help="Language of the source's text file, such as lc.rm.en."),
    click.option("--source-tokens", type=PATH, help="Source tokens (train tokens)."),
    click.option("--wait-k", type=click.IntRange(1), help="Train for wait-k, to begin after so many units."),
    click.option("--unit-ms", type=click.FloatRange(min=0, min_open=True), help="Wait-k's unit, in ms [280]."),
    click.option("--writes", type=click.IntRange(1), help="Wait-k's tokens after each unit [1]."),
    click.option("--unidirectional", is_flag=True, help="With --wait-k: frames attend only to earlier frames."),
    click.option("--chunk-ms", type=Positive(), help="Learn a wait token: length of a chunk of the data, in ms."),
    click.option("--first-ms", type=Positive(), help="With --chunk-ms: length of the first chunk."),
    click.argument("extra", nargs=-1, metavar="[-- ESPNET'S OPTIONS]"),
)
"""The options that statistics and training share, for `training_of`."""


def training_of(
    task: str,
    config: Path,
    train: Path,
    valid: Path,
    text: str,
    tokens: Path,
    source_text: str | None,
    source_tokens: Path | None,
    wait_k: int | None,
    unit_ms: float | None,
    writes: int | None,
    unidirectional: bool,
    chunk_ms: float | None,
    first_ms: float | None,
) -> Training:
    """What `training_options` describe. Raises SimulstError: an option of wait-k or of chunks without the others."""
    from simulst.errors import SimulstError
    from simulst.models.espnet.network.lagging import WaitOptions
    from simulst.training.espnet import Training

    if wait_k is None and (unit_ms is not None or writes is not None or unidirectional):
        raise SimulstError("--unit-ms, --writes and --unidirectional belong to --wait-k; give it, too.")
    if (chunk_ms is None) != (first_ms is None) or (chunk_ms is not None and wait_k is not None):
        raise SimulstError("--chunk-ms goes with --first-ms, and not with --wait-k; give these two.")
    wait = None
    if wait_k is not None or chunk_ms is not None:
        wait = WaitOptions(wait_k, unit_ms or 280.0, writes or 1, unidirectional, chunk_ms, first_ms)
    return Training(task, config, train, valid, text, tokens, source_text, source_tokens, wait)


@train.command()
@training_options
@click.option("--out", required=True, type=PATH, help="Folder for the statistics.")
@force_option("Delete what is in --out, and begin again.")
def stats(out: Path, force: bool, extra: tuple[str, ...], **options: Any) -> None:
    """Collect ESPnet's statistics of the features.

    ESPnet gets the options after --; they override --config.
    """
    from simulst.training.espnet import collect_stats

    collect_stats(training_of(**options), out, extra, force)


@train.command()
@training_options
@click.option("--stats", required=True, type=PATH, help="Folder of the statistics (train stats).")
@click.option("--encoder", type=PATH, help="Weights of an ASR model that initialise the encoder.")
@click.option("--model", type=PATH, help="Weights of an ST model that initialise the model.")
@click.option("--out", required=True, type=PATH, help="Folder for the training.")
@click.option("--ngpu", default=0, type=click.IntRange(0), help="GPUs per machine; 0: the CPU.")
@click.option("--num-nodes", default=1, type=click.IntRange(1), help="Machines of a Slurm cluster.")
@click.option("--hosts", metavar="A,B,...", help="Machines to train on through ssh (docs/clusters.md).")
@force_option("Delete what is in --out, and begin again.")
def espnet(
    out: Path,
    stats: Path,
    extra: tuple[str, ...],
    encoder: Path | None,
    force: bool,
    ngpu: int,
    num_nodes: int,
    hosts: str | None,
    model: Path | None,
    **options: Any,
) -> None:
    """Train a model with ESPnet.

    ESPnet gets the options after --; they override --config. The same command goes on after an interruption.
    """
    from simulst.training.espnet import Machines
    from simulst.training.espnet import train as train_model

    train_model(training_of(**options), out, stats, extra, encoder, force, Machines(ngpu, num_nodes, hosts), model)


@train.command()
@click.argument("experiment", type=PATH)
@click.option("--checkpoint", default="", show_default=False, help="Its weights; empty: chosen, averaged or best ones.")
@click.option("--data", required=True, type=PATH, help="Data directory to learn from.")
@target_lang_option
@click.option("--out", required=True, type=PATH, help="Folder of the training, which becomes an experiment.")
@click.option("--config", required=True, type=PATH, help="Such as conf/train/mini_reinforce.yaml.")
@force_option("Delete the training in --out, and begin again.")
def reinforce(
    experiment: Path, checkpoint: str, data: Path, target_lang: str, out: Path, config: Path, force: bool
) -> None:
    """Train a model with a wait token on lag and quality.

    It learns from its own translations: those become likelier that are better, and earlier, than others of the same
    speech. The same command goes on after an interruption.
    """
    from simulst.training.reinforce import read_training, reinforce

    reinforce(experiment, checkpoint, data, target_lang, out, read_training(config), force)


@train.command()
@click.argument("experiment", type=PATH)
@click.option("--checkpoint", default="", show_default=False, help="Its weights; empty: chosen, averaged or best ones.")
@click.option("--data", required=True, type=PATH, help="Data directory; the references are not used.")
@target_lang_option
@click.option("--first-ms", required=True, type=Positive(), help="First chunk of speech, in ms.")
@click.option("--ms", required=True, type=Positive(), help="The other chunks, in ms.")
@click.option("--utterances", default=1000, type=click.IntRange(2), help="How many are used.")
@force_option("Delete the examples, and begin again.")
def divergence(target_lang: str, first_ms: float, ms: float, **options: Any) -> None:
    """Train a head that foresees what later speech changes.

    STOP divergence goes by it. The model gives the labels itself. The same command goes on after an interruption.
    """
    from simulst.prefix.chunks import Grid
    from simulst.training.divergence import train_divergence

    train_divergence(target=target_lang, grid=Grid(first_ms, ms), **options)


@train.command()
@click.argument("experiment", type=PATH)
@click.option("--data", required=True, multiple=True, type=PATH, help="Development data directory (repeatable).")
@click.option("--text", required=True, multiple=True, help="Language of its references, such as tc.de (repeatable).")
@click.option("--target-lang", required=True, multiple=True, help="Target language, such as de (repeatable).")
@click.option("--source-lang", default="en", help="Source language.")
@click.option("--counts", type=Several(int), default="1 2 3 5", help="Numbers of checkpoints to average.")
@click.option("--limit", default=100, type=click.IntRange(1), help="Development sentences to decode.")
@click.option("--ctc-weight", type=click.FloatRange(0, 1), help="Take this CTC weight and no length bonus instead.")
@click.option("--last", is_flag=True, help="Average the last checkpoints instead of the best ones.")
@force_option("Choose again.")
def average(
    experiment: Path,
    data: tuple[Path, ...],
    text: tuple[str, ...],
    target_lang: tuple[str, ...],
    source_lang: str,
    **options: Any,
) -> None:
    """Average checkpoints, and choose the weights of the search.

    The average with the best BLEU on dev becomes chosen.pth. Then the CTC weight and the length bonus with which
    chosen.pth has the best BLEU on dev become search.yaml.

    Averaging harms very short trainings, whose loss still falls, so decoding decides how many checkpoints are averaged.
    For a model of several pairs, give --data, --text and --target-lang once for each pair; the mean of their BLEU
    decides.
    """
    from simulst.errors import SimulstError
    from simulst.training.average import Dev, choose

    if not len(data) == len(text) == len(target_lang):
        raise SimulstError("--data, --text, --target-lang: give them equally often, once for each target language.")
    devs = [Dev(*values) for values in zip(data, text, target_lang, strict=True)]
    choose(experiment, devs, source_lang, **options)


# ---- Hugging Face ----


@train.command()
@click.option("--config", required=True, type=PATH, help="Such as conf/train/whisper_finetune.yaml.")
@click.option("--model", type=PATH, help="Model to begin with: a folder, or a name on the hub.")
@click.option("--pair", "pairs", required=True, multiple=True, help="Languages spoken and written, such as en-de.")
@click.option("--train", "train_dirs", required=True, multiple=True, type=PATH, help="Training data directory.")
@click.option("--valid", "valid_dirs", required=True, multiple=True, type=PATH, help="Development data directory.")
@click.option("--out", required=True, type=PATH, help="Folder of the training.")
@click.option("--ngpu", default=1, type=click.IntRange(1), help="GPUs to train on; with 1, a GPU if there is one.")
@force_option("Delete the training in --out, and begin again.")
def finetune(
    pairs: tuple[str, ...], train_dirs: tuple[Path, ...], valid_dirs: tuple[Path, ...], ngpu: int, **options: Any
) -> None:
    """Fine-tune a model of Hugging Face's, or train it from scratch.

    It is a speech-to-text model, a speech LLM, or one of text. Give --pair, --train and --valid once for each data
    directory; a pair may stand several times. The result is the folder model/ in --out. The same command goes on
    after an interruption. With several GPUs, each has batches of its own: divide `accumulate` by their number.
    """
    from simulst.errors import SimulstError
    from simulst.training.finetune import finetune
    from simulst.training.speech_text import Part

    if not len(pairs) == len(train_dirs) == len(valid_dirs):
        raise SimulstError("--pair, --train, --valid: give them equally often, once for each data directory.")
    if ngpu > 1:
        import torch

        if torch.cuda.device_count() < ngpu:
            raise SimulstError(f"--ngpu {ngpu}: there are {torch.cuda.device_count()} GPUs here; give at most so many.")
    train = [Part(pair, data) for pair, data in zip(pairs, train_dirs, strict=True)]
    valid = [Part(pair, data) for pair, data in zip(pairs, valid_dirs, strict=True)]
    finetune(train=train, valid=list(dict.fromkeys(valid)), processes=ngpu, **options)
