"""ESPnet's RNNDecoder: LSTM layers with additive attention (Bahdanau et al. 2015).

Each encoder frame is projected once for the attention, and n hypotheses share the frames. The first layer's state asks
the attention before a token is read. Its answer and the token are what the first layer reads:

    w_t = softmax_t(2 g·tanh(W_enc h_t + W_dec z_1)),   c = Σ_t w_t h_t,   z_1 = LSTM([token; c], z_1)

A state is a function of all that was read before it, with the encoder frames that were there at that time. So it can be
carried on when the encoder encodes everything again (Nguyen et al. 2021, equation 2). `Carried` does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from simulst.errors import SimulstError
from simulst.policy.context import HeadPairs

if TYPE_CHECKING:
    from espnet2.asr.decoder.rnn_decoder import RNNDecoder

SHARPNESS = 2.0  # of the softmax; ESPnet calls it scaling and never changes it


class RecurrentMemory:
    """The encoder frames that the decoder attends to.

    frames: (T, width).
    keys: (T, ·) their projections for the attention.
    """

    def __init__(self, project: torch.nn.Linear, frames: Tensor) -> None:
        self._project = project
        self.frames = frames
        self.keys = project(frames)

    def __len__(self) -> int:
        return len(self.frames)

    @torch.inference_mode()
    def append(self, frames: Tensor) -> None:
        """More encoder frames, (t, width)."""
        self.frames = torch.cat([self.frames, frames])
        self.keys = torch.cat([self.keys, self._project(frames)])


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """What n hypotheses have read.

    read: the tokens of each hypothesis, <sos> first.
    hidden: (layers, n, units) outputs of the layers.
    cells: (layers, n, units) their memory cells.
    attention: (1, n, 1, T) source attention of the last token, of one head; each row sums to 1. None at the start.
    """

    read: Sequence[tuple[int, ...]]
    hidden: Tensor
    cells: Tensor
    attention: Tensor | None = None

    def __len__(self) -> int:
        return len(self.read)

    def __getitem__(self, rows: Tensor) -> RecurrentState:
        """Select hypotheses. rows: (m,) int64, their numbers, in any order; they may repeat."""
        attention = None if self.attention is None else self.attention[:, rows]
        read = [self.read[row] for row in rows.tolist()]
        return RecurrentState(read, self.hidden[:, rows], self.cells[:, rows], attention)


class RecurrentDecoder:
    """A decoder that reads one token at a time.

    decoder: ESPnet's decoder with its weights, on its device. Its modules are used.

    Raises SimulstError: an option of ESPnet that is not implemented.
    """

    attentions = (1, 1)
    """How many layers have source attention, and how many heads each of them has."""

    def __init__(self, decoder: RNNDecoder) -> None:
        _check_supported(decoder)
        self._attention = decoder.att_list[0]
        self._embedding, self._layers, self._output = decoder.embed, decoder.decoder, decoder.output
        self._with_context = decoder.context_residual
        self._width = int(self._attention.eprojs)

    @torch.inference_mode()
    def memory(self) -> RecurrentMemory:
        """A memory without frames."""
        return RecurrentMemory(self._attention.mlp_enc, self._embedding.weight.new_zeros(0, self._width))

    def start(self) -> RecurrentState:
        """The state of one hypothesis that has read nothing."""
        nothing = self._embedding.weight.new_zeros(len(self._layers), 1, self._layers[0].hidden_size)
        return RecurrentState([()], nothing, nothing)

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: RecurrentState, memory: RecurrentMemory) -> tuple[Tensor, RecurrentState]:
        """Read one token of each hypothesis, (n,) int64. The old state is not changed.

        Returns: log p of the next token, (n, V) float32, and the new state, which has the source attention.
        """
        query = self._attention.mlp_dec(state.hidden[0])
        energies = self._attention.gvec(torch.tanh(memory.keys + query[:, None]))[:, :, 0]
        weights = torch.softmax(SHARPNESS * energies, 1)  # (n, T)
        context = weights @ memory.frames
        x = torch.cat([self._embedding(tokens), context], 1)
        hidden, cells = [], []
        for layer, old_hidden, old_cells in zip(self._layers, state.hidden, state.cells, strict=True):
            x, new_cells = layer(x, (old_hidden, old_cells))
            hidden.append(x)
            cells.append(new_cells)
        logits = self._output(torch.cat([x, context], 1) if self._with_context else x)
        read = [(*before, token) for before, token in zip(state.read, tokens.tolist(), strict=True)]
        new = RecurrentState(read, torch.stack(hidden), torch.stack(cells), weights[None, :, None])
        return torch.log_softmax(logits, 1), new


class Carried:
    """The decoder of one utterance, see `simulst.search.beam.Decoder`. A search goes on from states of those before it.
    They always have the source attention, asked for or not.

    `prefill` takes the state after the longest known part of the prefix, and reads only the rest of it with the frames
    of now, token by token. The last token of the prefix is always read, since the next one is predicted from these
    frames.
    """

    shown: HeadPairs = ((0, 0),)

    def __init__(self, decoder: RecurrentDecoder) -> None:
        self._decoder = decoder
        self._known: dict[tuple[int, ...], tuple[RecurrentState, int]] = {}  # what was read: the state, and its row
        self.memory, self.start = decoder.memory, decoder.start

    def step(
        self, tokens: Tensor, state: RecurrentState, memory: RecurrentMemory, *, attention: bool = False
    ) -> tuple[Tensor, RecurrentState]:
        log_p, new = self._decoder.step(tokens, state, memory)
        self._known.update({read: (new, row) for row, read in enumerate(new.read)})
        return log_p, new

    def prefill(
        self, tokens: Tensor, memory: RecurrentMemory, *, attention: bool = False
    ) -> tuple[Tensor, RecurrentState]:
        prefix = tuple(tokens.tolist())
        size = next((size for size in range(len(prefix) - 1, 0, -1) if prefix[:size] in self._known), 0)
        if not size:
            self._known = {}
            state = self._decoder.start()
        else:
            state, row = self._known[prefix[:size]]
            state = state[torch.tensor([row], device=tokens.device)]
            self._known = {prefix[:size]: (state, 0)}  # committed tokens only grow: shorter ones are not needed again
        for token in tokens[size:]:
            log_p, state = self.step(token[None], state, memory)
        return log_p, state


def _check_supported(decoder: Any) -> None:
    """Raise SimulstError if an option is not implemented here."""
    for option, value, wanted in (
        ("rnn_type", decoder.dtype, "lstm"),
        ("num_encs", decoder.num_encs, 1),
        ("att_conf: num_att", len(decoder.att_list), 1),
        ("att_conf: atype", type(decoder.att_list[0]).__name__.removeprefix("Att").lower(), "add"),
    ):
        if value != wanted:
            raise SimulstError(f"decoder_conf: {option} '{value}' is not implemented; train with '{wanted}'.")
