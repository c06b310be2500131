"""The cached decoder for many utterances at once. It is for offline work such as prefix extraction.

`CachedDecoder` decodes n hypotheses of one utterance. This decoder does the same for K hypotheses of each of B
utterances. Keys and values are in one pool per utterance. A mask over the pool says which tokens a hypothesis has read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.search.beam import DecoderStep, NextTokens

MOST_LEFT = 0.9  # once at most this share of the searches is still running, the memory of the others is freed


@dataclass(frozen=True, eq=False)
class BatchState:
    """What K hypotheses of each of B utterances have read, and what they attend to.

    pool: (layers, 2, B, heads, capacity, d_k) keys and values of tokens; as many slots are filled as `visible` has.
    visible: (B, K, slots) 0 if the slot is a token of the hypothesis, else -inf.
    lengths: (B,) how many tokens each hypothesis has read.
    memory: (layers, 2, B, heads, T, d_k) keys and values of encoder frames.
    hidden: (B, 1, 1, T) -inf after the end of an utterance, else 0.
    """

    pool: Tensor
    visible: Tensor
    lengths: Tensor
    memory: Tensor
    hidden: Tensor

    def utterances(self, rows: Tensor) -> BatchState:
        """The state of some of the utterances. rows: their numbers."""
        return BatchState(
            self.pool[:, :, rows], self.visible[rows], self.lengths[rows], self.memory[:, :, rows], self.hidden[rows]
        )

    def hypotheses(self, rows: Tensor) -> BatchState:
        """Select hypotheses of each utterance. rows: (B, K) their numbers, in any order; they may repeat."""
        index = rows[:, :, None].expand(-1, -1, self.visible.shape[2])
        return replace(self, visible=self.visible.gather(1, index))


class BatchDecoder:
    """Reads tokens of many utterances.

    decoder: the decoder whose weights and precision are used.
    """

    def __init__(self, decoder: CachedDecoder) -> None:
        self._decoder = decoder

    @torch.inference_mode()
    def start(self, frames: Sequence[Tensor], prefixes: Sequence[Sequence[int]]) -> tuple[Tensor, BatchState]:
        """Read a prefix for each utterance.

        frames: the encoder frames of each utterance, (t, width), t >= 1.
        prefixes: the token ids of each utterance; the first one is <sos>.
        Returns: log p of the next token, (B, 1, V) float32, and the state with one hypothesis per utterance.
        """
        decoder, device = self._decoder, frames[0].device
        count, longest = len(frames), max(len(prefix) for prefix in prefixes)
        layers, _, heads, _, d_k = decoder.empty.shape
        sizes = [len(one) for one in frames]
        projected = decoder.project(torch.cat(list(frames)).to(decoder.empty)).split(sizes)
        memory = torch.nn.utils.rnn.pad_sequence(list(projected), batch_first=True)
        memory = memory.view(count, -1, layers, 2, heads, d_k).permute(2, 3, 0, 4, 1, 5).contiguous()
        ends = torch.tensor(sizes, device=device)
        hidden = memory.new_zeros(count, 1, 1, memory.shape[4])
        hidden.masked_fill_(torch.arange(memory.shape[4], device=device) >= ends[:, None, None, None], -torch.inf)
        # Prefixes are padded at their start, so that the next token has the same slot in all of them.
        tokens = torch.zeros(count, longest, dtype=torch.long, device=device)
        for row, prefix in enumerate(prefixes):
            tokens[row, longest - len(prefix) :] = torch.tensor(list(prefix), device=device)
        lengths = torch.tensor([len(prefix) for prefix in prefixes], device=device)
        places = torch.arange(longest, device=device)
        real = places >= (longest - lengths)[:, None]
        among = memory.new_zeros(count, longest, longest)
        among.masked_fill_((places[None] > places[:, None]) | ~real[:, None], -torch.inf)
        among.diagonal(dim1=1, dim2=2).zero_()  # padding sees itself: a softmax over nothing would be NaN
        state = BatchState(
            memory.new_empty(layers, 2, count, heads, 2 * longest + 16, d_k),
            memory.new_empty(count, longest, 0),
            torch.zeros_like(lengths),
            memory,
            hidden,
        )
        positions = (places - (longest - lengths)[:, None]).clamp_min(0)
        log_p, state = self._read(tokens, positions, among, state, last_only=True)
        return log_p, replace(state, lengths=lengths)

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: BatchState) -> tuple[Tensor, BatchState]:
        """Read one token of each hypothesis, (B, K) → log p of the next token (B, K, V) float32, and the new state."""
        width = tokens.shape[1]
        among = state.visible.new_full((width, width), -torch.inf).fill_diagonal_(0).expand(len(tokens), -1, -1)
        positions = state.lengths[:, None].expand(-1, width)
        log_p, new = self._read(tokens, positions, among, state, last_only=False)
        return log_p, replace(new, lengths=state.lengths + 1)

    def _read(
        self, tokens: Tensor, positions: Tensor, among: Tensor, state: BatchState, last_only: bool
    ) -> tuple[Tensor, BatchState]:
        """Read tokens (B, M) at `positions` (B, M).

        among: (B, M, M) mask: which of the new tokens see each other. `state.visible` says which old tokens they see.
        last_only: whether to return log p after the last token only.
        """
        decoder = self._decoder
        batch, many = tokens.shape
        used = state.visible.shape[2]
        pool = state.pool
        if used + many > pool.shape[4]:
            pool = pool.new_empty((*pool.shape[:4], 2 * (used + many), pool.shape[5]))
            pool[..., :used, :] = state.pool[..., :used, :]
        visible = torch.cat([state.visible, among], 2)
        heads, d_k = pool.shape[3], pool.shape[5]
        encodings = decoder.encodings(0, int(positions.max()) + 1)
        x = decoder.embed(tokens.flatten(), encodings[positions.flatten()])
        for layer, own, source in zip(decoder.layers, pool, state.memory, strict=True):
            qkv = layer.self_in(layer.before[0](x)).view(batch, many, 3, heads, d_k).permute(2, 0, 3, 1, 4)
            own[:, :, :, used : used + many] = qkv[1:]
            key, value = own[:, :, :, : used + many]
            found = functional.scaled_dot_product_attention(qkv[0], key, value, visible[:, None])
            x = layer.after[0](x + layer.self_out(_rows(found)))
            query = layer.source_in(layer.before[1](x)).view(batch, many, heads, d_k).transpose(1, 2)
            found = functional.scaled_dot_product_attention(query, source[0], source[1], state.hidden)
            x = layer.after[1](x + layer.source_out(_rows(found)))
            x = layer.after[2](x + layer.down(layer.up(layer.before[2](x), relu=True)))
        if last_only:
            x, visible = x.view(batch, many, -1)[:, -1], visible[:, -1:]
        return decoder.log_p(x).view(batch, visible.shape[1], -1), replace(state, pool=pool, visible=visible)


def _rows(found: Tensor) -> Tensor:
    """(B, heads, M, d_k) → (B * M, heads * d_k)."""
    return found.transpose(1, 2).flatten(0, 1).flatten(1)


class SharedSteps:
    """Answers the decoder steps of many searches at once (see `simulst.search.calls.run_together`).

    The searches begin together and grow in step. Each of them has this object as its decoder.

    decoder: the decoder whose weights are used.
    """

    def __init__(self, decoder: CachedDecoder) -> None:
        self._decoder = BatchDecoder(decoder)
        self._state: BatchState | None = None
        self._searches: list[int] = []  # their numbers, in the order of the state's rows

    def memory(self) -> Frames:
        """A memory without frames."""
        return Frames()

    def start(self) -> None:
        """No state: the first answer makes it."""

    def step(self, tokens: Tensor, state: Any, memory: Any, *, attention: bool = False) -> tuple[Tensor, Any]:
        raise AssertionError("searches of a batch are answered together")

    def prefill(self, tokens: Tensor, memory: Any, *, attention: bool = False) -> tuple[Tensor, Any]:
        raise AssertionError("searches of a batch are answered together")

    def answer(self, calls: dict[int, DecoderStep]) -> dict[int, NextTokens]:
        """Answer one step of each search: {search number: call} → {search number: answer}.

        A search that is missing in `calls` has ended.

        Raises SimulstError: scores that are not numbers.
        """
        if self._state is None:
            self._searches = list(calls)
            frames = [torch.cat(call.memory.pieces) for call in calls.values()]
            log_p, self._state = self._decoder.start(frames, [call.tokens[0].tolist() for call in calls.values()])
        else:
            self._forget(calls)
            log_p = self._step(calls)
        for row, number in enumerate(self._searches):
            if number in calls and (adjust := calls[number].adjust):
                adjust(log_p[row, : len(calls[number].tokens)])
        call = next(iter(calls.values()))
        found = NextTokens.of(log_p, None, call.count, call.eos)
        answers = {}
        for row, number in enumerate(self._searches):
            if number in calls:
                count = len(calls[number].tokens)
                answers[number] = NextTokens(
                    found.tokens[row, :count], found.log_p[row, :count], found.end[row, :count], Rows(np.arange(count))
                )
        return answers

    def _step(self, calls: dict[int, DecoderStep]) -> Tensor:
        assert self._state is not None
        width = max(len(call.tokens) for call in calls.values())
        # Searches that have ended and shorter beams are padded.
        parents, tokens = np.zeros((2, len(self._searches), width), dtype=np.int64)
        for row, number in enumerate(self._searches):
            if number in calls:
                call = calls[number]
                parents[row, : len(call.tokens)] = call.state.numbers
                tokens[row, : len(call.tokens)] = call.tokens[:, 0]
        device = self._state.visible.device
        state = self._state.hypotheses(torch.from_numpy(parents).to(device))
        log_p, self._state = self._decoder.step(torch.from_numpy(tokens).to(device), state)
        return log_p

    def _forget(self, calls: dict[int, DecoderStep]) -> None:
        """Free the memory of searches that have ended, once there are enough of them to be worth a copy."""
        assert self._state is not None
        left = [row for row, number in enumerate(self._searches) if number in calls]
        if len(left) <= MOST_LEFT * len(self._searches):
            self._state = self._state.utterances(torch.tensor(left, device=self._state.visible.device))
            self._searches = [self._searches[row] for row in left]


class Frames:
    """The encoder frames of one search. They are projected later, together with those of the other searches."""

    def __init__(self) -> None:
        self.pieces: list[Tensor] = []

    def append(self, frames: Tensor) -> None:
        """More encoder frames, (t, width)."""
        self.pieces.append(frames)

    def __len__(self) -> int:
        return sum(map(len, self.pieces))


@dataclass(frozen=True)
class Rows:
    """The state of one search.

    numbers: (n,) the numbers of its hypotheses in its row of the batch.
    """

    numbers: np.ndarray
    attention: None = None

    def __getitem__(self, rows: Tensor) -> Rows:
        return Rows(self.numbers[rows.numpy()])
