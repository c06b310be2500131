"""Train Conformers faster on the CPU.

ESPnet's convolution module turns its input to (B, channels, T). There, oneDNN takes two to three times as long for a
convolution of each channel by itself as for the same numbers with the channels last, which is how they come. The
convolutions with one tap are plain products then. The results are the same but for rounding.
"""

from __future__ import annotations

from typing import Any

from espnet.nets.pytorch_backend.conformer.convolution import ConvolutionModule
from torch import Tensor
from torch.nn import functional

espnet_forward: Any = ConvolutionModule.forward


def install() -> None:
    """Let every convolution module of ESPnet's Conformers in this process compute in this way."""
    ConvolutionModule.forward = channels_last_forward


def channels_last_forward(module: Any, x: Tensor) -> Tensor:
    """As ESPnet's ConvolutionModule.forward: (B, T, channels) to the same."""
    if x.device.type != "cpu":
        return espnet_forward(module, x)
    first, depthwise, last = module.pointwise_conv1, module.depthwise_conv, module.pointwise_conv2
    x = functional.glu(functional.linear(x, first.weight.squeeze(2), first.bias))
    image = x.transpose(1, 2).unsqueeze(3)  # (B, channels, T, 1), whose channels are next to each other in memory
    padding = depthwise.padding[0], 0
    image = functional.conv2d(image, depthwise.weight.unsqueeze(3), depthwise.bias, 1, padding, 1, depthwise.groups)
    x = image.squeeze(3).transpose(1, 2)
    x = module.activation(module.norm(x.flatten(0, 1))).view(x.shape)
    return functional.linear(x, last.weight.squeeze(2), last.bias)
