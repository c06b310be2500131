"""Models of Hugging Face's learn a wait token: tokens for it, and examples of one chunk of speech each.

In an example, the audio ends with its chunk, as in decoding. The model reads what the chunks before wrote, with their
wait tokens. It learns what this chunk writes, and the token that ends it.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.hypotheses import WAIT, Tokens, lag_token
from simulst.languages import unit_of
from simulst.models.cascade.llm import Loaded
from simulst.models.huggingface.architectures import Architecture
from simulst.models.huggingface.wait_token import CHUNKS, learn_wait
from simulst.prefix.chunks import Grid
from simulst.words import Words, split

Learner = Architecture | Loaded


def read_wait_text(utterance: Utterance, grid: Grid) -> tuple[int, list[str]]:
    """The lag of a text that `simulst prefix chunks` wrote, and what each chunk writes.

    Raises SimulstError: it is another text, or one of other chunks.
    """
    tagged = re.fullmatch(r"<lag(\d+)>(.*)", utterance.reference)
    texts, count = tagged[2].split(WAIT) if tagged else [], len(grid.ends(utterance.seconds * 1000)) + 1
    if not tagged or len(texts) != count:
        raise SimulstError(
            f"'{utterance.name}' has {count} chunks with first_ms {grid.first_ms:g} and chunk_ms {grid.ms:g}, but its "
            f"text has {len(texts)}; write it by 'simulst prefix chunks' with these lengths."
        )
    return int(tagged[1]), texts


def chunks_of(architecture: Learner, utterance: Utterance, grid: Grid, target: str) -> Iterator[tuple[Any, ...]]:
    """Of each chunk: the utterance up to its end, the tokens that are written before, and those that it writes.

    The last ends with <eos>, the others with the wait token. Raises SimulstError: as `read_wait_text`, or a lag that is
    not in the training data.
    """
    assert architecture.wait is not None
    lag, texts = read_wait_text(utterance, grid)
    if lag not in architecture.wait.lags:
        raise SimulstError(f"'{utterance.name}' has lag {lag}, but no training data has; give data with the same lags.")
    given, ends = architecture.wait.lags[lag], grid.ends(utterance.seconds * 1000)
    written = tokens_of(architecture, texts, target)
    for end, new in zip(ends, written[:-1], strict=True):
        new = (*new, architecture.wait.token)
        yield replace(utterance, end=utterance.start + end / 1000), given, new
        given += new
    yield utterance, given, (*written[-1], architecture.eos)


def tokens_of(architecture: Learner, texts: Sequence[str], target: str) -> list[Tokens]:
    """The tokens of the text of each chunk: those of the whole text, cut between words (characters of zh, ja, ...).

    If words of two chunks share a token, it is the later one's.
    """
    words = Words(architecture.text, unit_of(target))
    tokens = architecture.tokens("".join(texts).strip(), target)
    found, begin, count = list[Tokens](), 0, 0
    for text in texts[:-1]:
        count += len(split(text, words.unit))
        begun = range(begin, len(tokens) + 1)
        end = begin + bisect.bisect_right(begun, count, key=lambda n: words.count_all(tokens[:n])) - 1
        while end > begin and not architecture.text(tokens[end - 1 : end]).strip():
            end -= 1  # a space belongs to the word after it
        found.append(tokens[begin:end])
        begin = end
    return [*found, tokens[begin:]]


def add_tokens(architecture: Learner, utterances: Iterable[Utterance], grid: Grid) -> None:
    """Add the wait token and those of the utterances' lags to a model. Tokens that it has already stay as they are.

    They begin as copies of <eos>: a model ends a text where it has no more to write.
    """
    lags = sorted({read_wait_text(one, grid)[0] for one in utterances})
    model, tokenizer = architecture.model, architecture.tokenizer
    new = [token for token in (WAIT, *map(lag_token, lags)) if token not in tokenizer.get_vocab()]
    tokenizer.add_tokens(new, special_tokens=True)
    part = model.get_decoder() if model.config.model_type == "speech-encoder-decoder" else model
    part.resize_token_embeddings(max(len(tokenizer), len(part.get_output_embeddings().weight)), mean_resizing=False)
    numbers = tokenizer.convert_tokens_to_ids(new)
    with torch.no_grad():
        output = part.get_output_embeddings()
        for rows in (part.get_input_embeddings().weight, output.weight, getattr(output, "bias", None)):
            if rows is not None:
                rows[numbers] = rows[architecture.eos].clone()
    setattr(model.config, CHUNKS, [grid.first_ms, grid.ms])
    learn_wait(architecture)
