"""Language models learn a wait token from chunk-aligned data: the source in a chat grows, and the answer goes on.

Each chunk is an example: the source words that were spoken by its end, what was written before, and what is written
now. A cascade's translator `llm` reads the same chats.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.files.text import lines_of
from simulst.models.cascade.llm import LLM, Loaded
from simulst.models.huggingface.architectures import ARCHITECTURES
from simulst.prefix.chunks import CHUNKS, Grid
from simulst.training.speech_text import Example, Part
from simulst.training.waiting import chunks_of


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
