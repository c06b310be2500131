"""Packed sequences through the kernel for padded ones give what torch gives, outputs and gradients alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from simulst.training.packed_lstm import padded_forward, torch_forward


def run(
    forward: Callable[..., Any], layer: torch.nn.LSTM, padded: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The outputs (B, T, ·), their lengths, and the gradients of the input and of all weights."""
    layer.zero_grad()
    padded = padded.clone().requires_grad_()
    packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
    out, kept = pad_packed_sequence(forward(layer, packed)[0], batch_first=True)
    (out * torch.arange(out.numel()).reshape(out.shape).cos()).sum().backward()
    gradients = [padded.grad, *(weight.grad for weight in layer.parameters())]
    return out.detach(), kept, [gradient.clone() for gradient in gradients if gradient is not None]


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    bidirectional=st.booleans(),
    training=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_as_torch(lengths: list[int], bidirectional: bool, training: bool, seed: int) -> None:
    torch.manual_seed(seed)
    layer = torch.nn.LSTM(5, 4, batch_first=True, bidirectional=bidirectional).train(training)
    padded = torch.randn(len(lengths), max(lengths), 5)
    out, kept, gradients = run(padded_forward, layer, padded, torch.tensor(lengths))
    theirs, their_lengths, their_gradients = run(torch_forward, layer, padded, torch.tensor(lengths))
    assert kept.tolist() == their_lengths.tolist() == lengths
    torch.testing.assert_close(out, theirs, atol=1e-5, rtol=1e-4)
    assert len(gradients) == len(their_gradients) == 1 + 4 * (1 + bidirectional)
    torch.testing.assert_close(gradients, their_gradients, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("options", [{"num_layers": 2}, {"proj_size": 2}, {"bias": False}])
def test_other_layers_are_left_to_torch(options: dict[str, Any]) -> None:
    layer = torch.nn.LSTM(5, 4, batch_first=True, **options)
    packed = pack_padded_sequence(torch.randn(2, 3, 5), torch.tensor([3, 2]), batch_first=True)
    out, states = padded_forward(layer, packed)
    theirs, their_states = torch_forward(layer, packed)
    assert torch.equal(out.data, theirs.data)
    assert all(map(torch.equal, states, their_states))


def test_a_given_state_and_a_plain_sequence_are_left_to_torch() -> None:
    layer = torch.nn.LSTM(5, 4, batch_first=True)
    padded, state = torch.randn(2, 3, 5), (torch.randn(1, 2, 4), torch.randn(1, 2, 4))
    packed = pack_padded_sequence(padded, torch.tensor([3, 2]), batch_first=True)
    assert torch.equal(padded_forward(layer, packed, state)[0].data, torch_forward(layer, packed, state)[0].data)
    assert torch.equal(padded_forward(layer, padded)[0], torch_forward(layer, padded)[0])
