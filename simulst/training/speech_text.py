"""Data directories as examples for a speech-to-text model of Hugging Face's: tokens, batches, padding.

A language model learns a wait token from chunk-aligned data: the source in a chat grows, and the answer goes on. Each
chunk is an example: the source words that were spoken by its end, what was written before, and what is written now. A
cascade's translator `llm` reads the same chats.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Sampler
from transformers.utils import ModelOutput

from simulst.audio.read import load_audio
from simulst.data.datadir import Utterance, read_data_dir
from simulst.errors import SimulstError
from simulst.files.text import lines_of
from simulst.hypotheses import Tokens
from simulst.models.cascade.llm import LLM, Loaded
from simulst.models.huggingface.architectures import ARCHITECTURES, LEAST_SAMPLES, Architecture
from simulst.models.speech_llm.architectures import SpeechLLM
from simulst.prefix.chunks import CHUNKS, Grid
from simulst.training.waiting import Learner, chunks_of

IGNORED = -100  # the label of positions without a loss


@dataclass(frozen=True)
class Part:
    """A data directory with its languages.

    pair: such as en-de.
    data: data directory with the text of the target language.
    """

    pair: str
    data: Path

    @property
    def languages(self) -> tuple[str, str]:
        """Spoken and written. Raises SimulstError: this is no pair."""
        source, dash, target = self.pair.partition("-")
        if not (source and dash and target):
            raise SimulstError(f"--pair {self.pair}: give the languages spoken and written, such as en-de.")
        return source, target


@dataclass(frozen=True)
class Example:
    """An utterance with what the decoder reads before its text, the text with <eos>, and its transcript for CTC.

    In the prompt of a speech LLM, one token stands for all audio.
    """

    utterance: Utterance
    seconds: float
    prompt: Tokens
    text: Tokens
    heard: Tokens = ()


def read_parts(parts: Sequence[Part]) -> list[list[Utterance]]:
    """The utterances of each part. Raises SimulstError: no data directory, or a missing text."""
    return [read_data_dir(part.data, part.languages[1]) for part in parts]


def examples_of(
    architecture: Architecture,
    parts: Sequence[Part],
    utterances: Sequence[Sequence[Utterance]],
    most_seconds: float,
    transcripts: Sequence[Mapping[str, Tokens]] | None = None,
    grid: Grid | None = None,
) -> list[Example]:
    """The utterances as examples. Prints how many are left out, as they are too long or have no text.

    utterances: of each of the parts.
    most_seconds: longer ones are left out, and those that are too long for the model.
    transcripts: utterance → tokens for CTC, of each of the parts; None if there is no CTC.
    grid: of the chunks, of which each becomes an example; None: the whole text is learnt at once.

    Raises SimulstError: the model does not have a language, or has no language tokens for several targets; no example
        is left; a text of other chunks.
    """
    targets = {part.languages[1] for part in parts}
    if len(targets) > 1 and not (architecture.languages or isinstance(architecture, SpeechLLM)):
        raise SimulstError(
            f"{architecture.path}: the model has no language tokens, so it cannot learn {', '.join(sorted(targets))} "
            "together; give one target language, or another model."
        )
    most_seconds = min(most_seconds, architecture.longest_seconds)
    unknown = architecture.tokenizer.unk_token_id
    examples: list[Example] = []
    for part, found, heard in zip(parts, utterances, transcripts or [{}] * len(parts), strict=True):
        source, target = part.languages
        prompt = _prompt(architecture, source, target)
        here, strange, total = [], 0, 0
        for utterance in found:
            seconds = utterance.seconds
            tokens = architecture.tokens(utterance.reference, target) if utterance.reference else ()
            fits = seconds <= most_seconds and len(prompt) + len(tokens) < architecture.positions
            if tokens and fits:
                whole = ((utterance, (), (*tokens, architecture.eos)),)
                for one, given, text in chunks_of(architecture, utterance, grid, target) if grid else whole:
                    here.append(Example(one, one.seconds, prompt + given, text, heard.get(one.name, ())))
                strange, total = strange + sum(token == unknown for token in tokens), total + len(tokens)
        if not here:
            raise SimulstError(
                f"{part.data}: no utterance of at most {most_seconds:g} s with a text that fits the model; check the "
                "segments and texts, or raise most_seconds."
            )
        fewer = len(found) - len({example.utterance.name for example in here})
        left_out = f", {fewer} left out (no text, or too long)" if fewer else ""
        unknowns = f", {100 * strange / total:.1f} % of tokens unknown to the model" if strange else ""
        print(f"{part.data}: {len(here)} examples {source}→{target}{left_out}{unknowns}")
        examples += here
    return examples


def is_language_model(kind: str) -> bool:
    """Whether a type of model of transformers reads text alone, and goes on with it."""
    from transformers.models.auto import modeling_auto as known

    speech = {*known.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES, *ARCHITECTURES}  # Phi-4-multimodal reads audio, too
    return kind in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in speech


def chats_of(
    loaded: Loaded, parts: Sequence[Part], utterances: Sequence[Sequence[Utterance]], grid: Grid
) -> list[Example]:
    """The chunks of all utterances as examples, from the first one with a source word on: before it, nothing is asked.

    Raises SimulstError: chunks.jsonl lacks an utterance or its source words; as `chunks_of`.
    """
    examples, longer = [], 0
    for part, found in zip(parts, utterances, strict=True):
        heard = _sources(part.data / CHUNKS)
        for utterance in found:
            source, silent = "", 0
            if utterance.name not in heard:
                raise SimulstError(
                    f"{part.data / CHUNKS}: no source words of '{utterance.name}'; write the data by 'simulst prefix "
                    "chunks' with --links and the times of the source's words."
                )
            chunks = chunks_of(loaded, utterance, grid, part.languages[1])
            for (one, given, text), more in zip(chunks, heard[utterance.name], strict=True):
                source = f"{source} {more}".strip()
                if not source:
                    silent += 1
                    continue
                chat = loaded.prompt(LLM(model="").messages(*part.languages, source, ()))
                prompt = (*chat, *given[:1], *given[1 + silent :])
                if len(prompt) + len(text) < loaded.positions:
                    examples.append(Example(one, one.seconds, prompt, text))
                else:
                    longer += 1
    if not examples:
        raise SimulstError(f"{parts[0].data}: no chunk fits the {loaded.positions} tokens that the model reads.")
    left_out = f", {longer} left out (longer than the {loaded.positions} tokens that the model reads)" if longer else ""
    print(f"{len(examples)} examples of {sum(map(len, utterances))} utterances{left_out}")
    return examples


def _sources(path: Path) -> dict[str, list[str]]:
    """Utterance → the source words that were spoken in each chunk; without those whose words are not known."""
    lines = map(json.loads, lines_of(path) if path.is_file() else ())
    return {line["utterance"]: line["source"] for line in lines if line.get("source")}


def _prompt(architecture: Architecture, source: str, target: str) -> Tokens:
    if not isinstance(architecture, SpeechLLM):
        return architecture.prompt(source, target)
    before, after = architecture.chat(source, target)
    return (*before, architecture.audio_token, *after)


@dataclass
class Heard(ModelOutput):
    """What a speech LLM says in training.

    logits: (n, tokens, V). encoder_last_hidden_state: the audio's embeddings, (n, T, width).
    encoder_attention_mask: (n, T), 1 where these are of audio, and fill up no row.
    """

    logits: Tensor
    encoder_last_hidden_state: Tensor | None = None
    encoder_attention_mask: Tensor | None = None


def read_audio_in_place(architecture: SpeechLLM) -> None:
    """Have a speech LLM take what `Collator` makes: where the token for audio stands, it reads the audio's embeddings.

    Its logits are those of the other tokens; the embeddings are what the encoder gives. Each window is encoded by
    itself, as in decoding. What fills up a row stands after it, where causal attention does not see it.
    """
    model = architecture.model
    plain = model.forward

    def forward(audio: Sequence[dict[str, Tensor]], input_ids: Tensor, **options: Any) -> Any:
        rows, length = model.get_input_embeddings()(input_ids), input_ids.shape[1]
        places = (input_ids == architecture.audio_token).int().argmax(1).tolist()
        parts = [architecture.encoded(one)[0].frames.to(rows.dtype) for one in audio]
        whole = [torch.cat([row[:n], part, row[n + 1 :]]) for row, n, part in zip(rows, places, parts, strict=True)]
        output = plain(inputs_embeds=pad_sequence(whole, batch_first=True), **options)
        logits = zip(output.logits, parts, strict=True)
        return Heard(
            torch.stack([row[len(part) - 1 :][:length] for row, part in logits]),
            pad_sequence(parts, batch_first=True),
            pad_sequence([part.new_ones(len(part)) for part in parts], batch_first=True),
        )

    model.forward = forward


class Batches(Sampler[list[int]]):
    """Batches of similar length. What is in a batch is always the same; the order depends on the epoch alone.

    seconds: of each example.
    most: seconds in a batch, padding included.
    seed: of the order; None: the longest first.
    share: the number of this process and how many train together. Each takes every n-th batch. If they do not come
        out even, the first batches of an epoch are there twice.
    """

    def __init__(
        self, seconds: Sequence[float], most: float, seed: int | None = None, share: tuple[int, int] = (0, 1)
    ) -> None:
        self._seed, self._epoch, self._share = seed, 0, share
        shuffled = np.random.default_rng(seed or 0).permutation(len(seconds))
        self._batches: list[list[int]] = []
        for index in shuffled[np.argsort(-np.asarray(seconds)[shuffled], kind="stable")].tolist():
            # The first of a batch is its longest.
            if not self._batches or (len(self._batches[-1]) + 1) * seconds[self._batches[-1][0]] > most:
                self._batches.append([])
            self._batches[-1].append(index)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return -(-len(self._batches) // self._share[1])

    def __iter__(self) -> Iterator[list[int]]:
        order = np.arange(len(self._batches))
        if self._seed is not None:
            order = np.random.default_rng((self._seed, self._epoch)).permutation(len(order))
        number, processes = self._share
        return iter([self._batches[index] for index in np.resize(order, len(self) * processes)[number::processes]])


class Collator:
    """Makes a model's input of examples: audio is read here, so broken audio ends in a SimulstError that names it."""

    def __init__(self, architecture: Learner) -> None:
        self._architecture = architecture
        encoder = getattr(architecture, "encoder", None)
        self._least = max(LEAST_SAMPLES, _samples_to_mask(getattr(encoder, "config", None)))

    def __call__(self, examples: Sequence[Example]) -> dict[str, Any]:
        """The encoder's input; decoder_input_ids, decoder_attention_mask and labels, (n, tokens) int64 each.

        Of a speech LLM: audio, the encoder's input of each example; input_ids and labels. Of a language model: these
        two alone.
        If there are transcripts: heard, (n, tokens) int64, filled up with IGNORED.
        """
        read, mask, labels = self.rows(examples)
        if isinstance(self._architecture, Loaded):
            return {"input_ids": read, "labels": labels}
        windows = []
        for example in examples:
            one = example.utterance
            samples = load_audio(one.wav, one.start, one.end)
            windows.append(np.pad(samples, (0, max(0, self._least - samples.size))))
        found: dict[str, Any] = {"labels": labels}
        if isinstance(self._architecture, SpeechLLM):
            found |= {"audio": [self._architecture.inputs([one]) for one in windows], "input_ids": read}
        else:
            inputs = self._architecture.inputs(windows)
            found |= {**inputs, "decoder_input_ids": read, "decoder_attention_mask": mask}
        if any(example.heard for example in examples):
            rows = [torch.tensor(example.heard, dtype=torch.long) for example in examples]
            found["heard"] = pad_sequence(rows, batch_first=True, padding_value=IGNORED)
        return found

    def rows(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor, Tensor]:
        """What is read, a mask of it, and the labels, (n, tokens) int64 each."""
        length = max(len(example.prompt) + len(example.text) - 1 for example in examples)
        read = torch.full((len(examples), length), self._architecture.eos)
        mask = torch.zeros_like(read)
        labels = torch.full_like(read, IGNORED)
        for row, example in enumerate(examples):
            tokens = torch.tensor([*example.prompt, *example.text])
            read[row, : len(tokens) - 1] = tokens[:-1]
            mask[row, : len(tokens) - 1] = 1
            labels[row, len(example.prompt) - 1 : len(tokens) - 1] = tokens[len(example.prompt) :]
        return read, mask, labels


def _samples_to_mask(config: Any) -> int:
    """The least samples in a batch for an encoder that masks frames while it is trained; the library fails on fewer."""
    if not getattr(config, "apply_spec_augment", False):
        return 0
    return getattr(config, "inputs_to_logits_ratio", 320) * (config.mask_time_length + 2)
