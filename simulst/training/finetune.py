"""Fine-tune a speech-to-text model of Hugging Face's with the library's own trainer.

A training's folder holds

simulst.json        what it was begun with, and whether it is complete
transcripts.json    the pieces of words of CTC, if the new model learns by it
begin/              the model it began with, if the configuration describes a new one (`new_model`)
epochs.json         the loss on dev after each epoch
<n>epoch.pth        the trained weights of the best epochs
checkpoint-<n>/     the trainer's own checkpoints, to go on from after an interruption; deleted at the end
model/              the result: an ordinary folder of Hugging Face's
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException
from torch.utils.data import DataLoader

from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.files.folder import begun, digest, digest_of_files, locked, replaced, write_atomically
from simulst.hypotheses import Tokens
from simulst.models.cascade.llm import LLM, Loaded
from simulst.models.huggingface.architectures import Architecture, Whisper
from simulst.models.huggingface.folder import files_of_folder, find_folder, model_type
from simulst.models.huggingface.loading import quiet, read
from simulst.models.huggingface.options import HuggingFaceOptions
from simulst.models.speech_llm.architectures import SpeechLLM
from simulst.training.average import average_checkpoints
from simulst.training.configuration import FineTuning, read_options
from simulst.training.ctc import Pieces, add_ctc, read_transcripts
from simulst.training.freezing import change_settings, freeze, read_short_windows
from simulst.training.new_model import make_model
from simulst.training.speech_text import (
    Batches,
    Collator,
    Part,
    chats_of,
    examples_of,
    is_language_model,
    read_audio_in_place,
    read_parts,
)
from simulst.training.waiting import Learner, add_tokens

RECORD, BEGIN, MODEL, AVERAGE = "simulst.json", "begin", "model", "average.pth"
TRANSCRIPTS = "transcripts.json"
TRAINED = (MODEL, AVERAGE, "epochs.json", "*epoch.pth", "checkpoint-*")  # what it writes after its record
OWN = {"config.json", "generation_config.json", "model.safetensors.index.json"}  # what the library writes itself


Work = tuple[Path, Path, Sequence[Part], Sequence[Part], Path]
"""What each of several processes needs: configuration, model to begin with, data, development data, folder."""


def finetune(
    config: Path,
    model: Path | None,
    train: Sequence[Part],
    valid: Sequence[Part],
    out: Path,
    force: bool = False,
    processes: int = 1,
) -> None:
    """Train, or go on after an interruption: the result is `out/model`.

    config: a `FineTuning` in YAML.
    model: folder or hub name of the model to begin with; None if the configuration describes a new one.
    train: data directories with their languages; also several of one pair, such as prefix pairs (`write_pairs`) and
        other corpora.
    valid: development data.
    out: folder of the training.
    force: begin again.
    processes: how many train together, each on a GPU of its own if there are GPUs. An update is of `accumulate`
        batches of each of them.

    Raises SimulstError: wrong configuration, model or data; `out` holds another training; another run uses `out`; the
        loss is no number any more; several processes with `ctc_weight`.
    """
    options, new = read_options(config)
    if (model is None) == (new is None):
        raise SimulstError(f"{config}: give either --model or 'new_model' in the configuration, not both or neither.")
    if processes > 1 and options.ctc_weight:
        raise SimulstError(f"{config}: a training with ctc_weight is for one GPU; give --ngpu 1, or leave it out.")
    heard, held_out = read_parts(train), read_parts(valid)
    wanted = json.loads(json.dumps(asdict(options)))
    wanted["model"] = None if model is None else digest_of_files(files_of_folder(model))
    transcripts = read_transcripts(train) if options.ctc_weight else []
    wanted["data"] = digest(map(str, (train, heard, valid, held_out, *transcripts)))
    if processes > 1:
        wanted["processes"] = processes
    with locked(out):
        record = begun(out / RECORD, wanted, TRAINED, force, asdict(FineTuning(1, 1.0)))
        if record is not None and record.get("complete"):
            print(f"{out}: complete; --force does it again")
            return
        if model is None:
            assert new is not None
            model = out / BEGIN
            if record is None:
                texts = [utterance.reference for part in heard for utterance in part]
                with replaced(model) as part:
                    make_model(new, [one.languages[1] for one in train], texts, options.seed, part, str(config))
        architecture = _read(model, options, config, heard)
        pieces = None
        if transcripts:
            said = [text for one in transcripts for text in one.values()]
            pieces = Pieces(out / TRANSCRIPTS, said if record is None else None)
        tokens = [pieces.tokens(one) for one in transcripts] if pieces else None
        batches = _batches(architecture, train, heard, options, options.seed, tokens)
        listening = options.listen_epochs * math.ceil(len(batches) / options.accumulate)
        if options.updates and options.updates <= listening:
            raise SimulstError(
                f"{config}: the {options.updates} updates end within the listening epochs, which have {listening}, so "
                "the decoder would learn nothing; give more updates, or fewer listen_epochs."
            )
        if pieces:
            add_ctc(architecture.model, next(iter(batches)), len(pieces), options.seed)
        dev = _batches(architecture, valid, held_out, options, None)
        # From here on, another configuration or model is refused.
        write_atomically(out / RECORD, json.dumps({**wanted, "complete": False}, indent=1))
        with quiet():
            from simulst.training.trainer import dev_loss, read_losses, train_epochs

            if processes > 1:
                _train_together((config, model, train, valid, out), processes)
                losses = read_losses(out)
                architecture.model.to("cuda" if torch.cuda.is_available() else "cpu")
            else:
                losses = train_epochs(architecture.model, batches, dev, options, out)
            _average(architecture.model, losses, options, out, lambda: dev_loss(architecture.model, dev))
            if pieces:
                del architecture.model.ctc
            with replaced(out / MODEL) as part:
                _save(architecture, find_folder(model), part)
        write_atomically(out / RECORD, json.dumps({**wanted, "complete": True}, indent=1))
        for checkpoint in out.glob("checkpoint-*"):
            shutil.rmtree(checkpoint)
        print(f"{out / MODEL}: written")


def _train_together(work: Work, processes: int) -> None:
    """Train by so many processes of this machine, with PyTorch's launcher. Raises SimulstError: one of them failed."""
    failed: Any = torch.multiprocessing.get_context("spawn").SimpleQueue()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        torch.multiprocessing.spawn(_one_of_several, (work, processes, port, failed), processes)
    except (ProcessRaisedException, ProcessExitedException) as error:
        said = f"{work[-1]}: a process of the training ended ({str(error).strip().splitlines()[-1]})."
        raise SimulstError(said if failed.empty() else failed.get()) from error


def _one_of_several(number: int, work: Work, processes: int, port: int, failed: Any) -> None:
    """One of the processes. failed: gets the sentence that ends it."""
    place = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
    place["MASTER_PORT"] = port
    os.environ.update({name: str(value) for name, value in place.items()}, MASTER_ADDR="127.0.0.1")
    try:
        # The main process has printed what it read.
        with quiet(), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            config, model, train, valid, out = work
            options, _ = read_options(config)
            heard, held_out = read_parts(train), read_parts(valid)
            architecture = _read(model, options, config, heard)
            batches = _batches(architecture, train, heard, options, options.seed, share=(number, processes))
            dev = _batches(architecture, valid, held_out, options, None)
            from simulst.training.trainer import train_epochs

            train_epochs(architecture.model, batches, dev, options, out)
            torch.distributed.destroy_process_group()
    except SimulstError as error:
        failed.put(str(error))
        raise


def _read(model: Path, options: FineTuning, config: Path, heard: Sequence[Sequence[Utterance]]) -> Learner:
    """The model with the changed settings, and the tokens that the data needs, of which a part will be trained."""
    loading = HuggingFaceOptions(padding_seconds=options.padding_seconds, other_targets=True)
    if is_language_model(str(model_type(find_folder(model)))):
        if not options.grid or options.settings or options.encoder_layers is not None or options.ctc_weight:
            raise SimulstError(
                f"{config}: a language model learns to wait; give first_ms and chunk_ms, and leave out settings, "
                "encoder_layers and ctc_weight."
            )
        loaded = LLM(model=str(model)).opened(Path())
        add_tokens(loaded, [utterance for part in heard for utterance in part], options.grid)
        return loaded
    architecture: Architecture = read(
        model, loading, lambda found: change_settings(found, options.settings, str(config))
    )
    if getattr(architecture.model, "_hf_peft_config_loaded", False):
        raise SimulstError(f"{model}: hears by an adapter of peft, which is not trained here; give another model.")
    if options.grid:
        add_tokens(architecture, [utterance for part in heard for utterance in part], options.grid)
    try:
        freeze(architecture.encoder, not options.train_features, options.encoder_layers)
    except SimulstError as error:
        raise SimulstError(f"{config}: {error}") from error
    if isinstance(architecture, Whisper):
        read_short_windows(architecture.model)
    if isinstance(architecture, SpeechLLM):
        read_audio_in_place(architecture)
    trained = sum(p.numel() for p in architecture.model.parameters() if p.requires_grad)
    total = sum(p.numel() for p in architecture.model.parameters())
    print(f"{model}: {trained / 1e6:.2f} of {total / 1e6:.2f} million weights are trained")
    return architecture


def _batches(
    architecture: Learner,
    parts: Sequence[Part],
    utterances: Sequence[Sequence[Utterance]],
    options: FineTuning,
    seed: int | None,
    transcripts: Sequence[Mapping[str, Tokens]] | None = None,
    share: tuple[int, int] = (0, 1),
) -> DataLoader:
    if isinstance(architecture, Loaded):
        assert options.grid is not None
        examples = chats_of(architecture, parts, utterances, options.grid)
    else:
        examples = examples_of(architecture, parts, utterances, options.most_seconds, transcripts, options.grid)
    batches = Batches([example.seconds for example in examples], options.batch_seconds, seed, share)
    return DataLoader(examples, batch_sampler=batches, collate_fn=Collator(architecture))  # type: ignore[arg-type]


def _average(model: Any, losses: Mapping[int, float], options: FineTuning, out: Path, loss: Any) -> None:
    """Load the average of the best checkpoints that has the least loss on dev."""
    heard = [epoch for epoch in options.ranked(losses) if epoch > options.listen_epochs]
    best = [epoch for epoch in heard if (out / f"{epoch}epoch.pth").is_file()]
    found: dict[int, float] = {}
    for count in sorted({min(count, len(best)) for count in options.average}):
        _load_average(model, best[:count], out)
        found[count] = loss()
    print("loss on dev by number of averaged checkpoints: " + ", ".join(f"{n}: {v:.4f}" for n, v in found.items()))
    _load_average(model, best[: min(found, key=lambda count: found[count])], out)


def _load_average(model: Any, epochs: Sequence[int], out: Path) -> None:
    average_checkpoints([out / f"{epoch}epoch.pth" for epoch in epochs], out / AVERAGE)
    model.load_state_dict(torch.load(out / AVERAGE, map_location="cpu", weights_only=True), strict=False)
    (out / AVERAGE).unlink()


def _save(architecture: Learner, begin: Path, out: Path) -> None:
    """Write weights, configuration and new tokens; other settings of tokeniser and features are copied as they are."""
    architecture.model.save_pretrained(out)
    for file in begin.iterdir():
        if file.suffix in (".json", ".model", ".txt", ".spm", ".jinja", ".py") and file.name not in OWN:
            shutil.copy(file, out)
    if architecture.wait:
        architecture.tokenizer.save_pretrained(out)
