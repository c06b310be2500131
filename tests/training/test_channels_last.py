"""ESPnet's convolution module with the channels last gives what ESPnet's own gives, outputs and gradients alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from espnet.nets.pytorch_backend.conformer.convolution import ConvolutionModule
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from simulst.training import channels_last
from simulst.training.channels_last import channels_last_forward, espnet_forward


def run(forward: Callable[..., Any], module: ConvolutionModule, x: Tensor) -> list[Tensor]:
    """The output (B, T, channels), the norm's mean, and the gradients of the input and of all weights."""
    module.zero_grad()
    module.norm.reset_running_stats()
    x = x.clone().requires_grad_()
    out = forward(module, x)
    (out * torch.arange(out.numel()).reshape(out.shape).cos()).sum().backward()
    gradients = [x.grad, *(weight.grad for weight in module.parameters())]
    return [out.detach(), module.norm.running_mean.clone(), *(g.clone() for g in gradients if g is not None)]


@settings(max_examples=40)
@given(
    batch=st.integers(1, 4),
    frames=st.integers(2, 12),
    channels=st.integers(1, 9),
    half=st.integers(0, 4),
    training=st.booleans(),
    bias=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_as_espnet(batch: int, frames: int, channels: int, half: int, training: bool, bias: bool, seed: int) -> None:
    torch.manual_seed(seed)
    module = ConvolutionModule(channels, 2 * half + 1, torch.nn.SiLU(), bias).double().train(training)
    x = torch.randn(batch, frames, channels, dtype=torch.float64)
    ours, theirs = (run(forward, module, x) for forward in (channels_last_forward, espnet_forward))
    assert len(ours) == len(theirs) == 3 + (8 if bias else 5)
    torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-7)


def test_only_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ConvolutionModule(4, 3, torch.nn.SiLU()).to("meta")
    monkeypatch.setattr(channels_last, "espnet_forward", lambda module, x: "ESPnet's")
    assert channels_last_forward(module, torch.zeros(1, 5, 4, device="meta")) == "ESPnet's"
