"""Train LSTM layers faster on the CPU.

ESPnet's RNN encoders pass packed sequences to torch. On the CPU, torch then makes one step at a time, and the backward
pass of each step adds to gradients of the whole sequence, so that its time grows with the square of the length. For
padded sequences torch has a kernel for the whole layer. Here a packed sequence goes through that kernel. The results
are the same but for rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


def install() -> None:
    """Let every layer of torch.nn.LSTM in this process take packed sequences in this way."""
    torch.nn.LSTM.forward = padded_forward  # type: ignore[method-assign]


torch_forward: Any = torch.nn.LSTM.forward


def padded_forward(layer: torch.nn.LSTM, input: Any, hx: Any = None) -> Any:
    """As torch.nn.LSTM.forward. For packed sequences without a given state, the final states are None."""
    plain = layer.num_layers == 1 and not layer.proj_size and layer.bias
    if hx is not None or not isinstance(input, PackedSequence) or input.data.device.type != "cpu" or not plain:
        return torch_forward(layer, input, hx)
    padded, lengths = pad_packed_sequence(input, batch_first=True)
    out = _one_way(layer, padded, "")
    if layer.bidirectional:
        # Each sequence is reversed within its own length, so that the padding is last here, too.
        places = torch.arange(padded.shape[1])
        turned = torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)[:, :, None]
        back = _one_way(layer, padded.gather(1, turned.expand_as(padded)), "_reverse")
        out = torch.cat([out, back.gather(1, turned.expand_as(back))], 2)
    return pack_padded_sequence(out, lengths, batch_first=True, enforce_sorted=False), None


def _one_way(layer: torch.nn.LSTM, padded: Tensor, suffix: str) -> Tensor:
    """The outputs of one direction: (B, T, inputs) → (B, T, hidden)."""
    weights = [getattr(layer, name + suffix) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")]
    zeros = padded.new_zeros(1, len(padded), layer.hidden_size)
    return torch.lstm(padded, (zeros, zeros), weights, True, 1, 0.0, layer.training, False, True)[0]
