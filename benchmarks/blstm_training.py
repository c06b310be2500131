"""Training speed of ESPnet's VGG-BLSTM encoder, with torch's packed LSTM and with simulst/training/packed_lstm.py.

    python benchmarks/blstm_training.py [--size mini|paper] [--seconds 5] [--utterances 8] [--threads 1]

Both run forward and backward in turns, on the same input. Outputs and gradients are equal. The last line is JSON.
"""

from __future__ import annotations

import json
import logging
import statistics
import time
from typing import Any

import click
import torch
from torch import Tensor

from simulst.machine.processor import processor
from simulst.training.packed_lstm import padded_forward, torch_forward

logging.disable(logging.WARNING)
from espnet2.asr.encoder.vgg_rnn_encoder import VGGRNNEncoder  # noqa: E402

SIZES: dict[str, dict[str, Any]] = {
    "mini": {"input_size": 27, "in_channel": 9, "num_layers": 2, "hidden_size": 128, "output_size": 128},
    "paper": {"input_size": 83, "in_channel": 1, "num_layers": 5, "hidden_size": 1024, "output_size": 1024},
}
FORWARDS = {"torch": torch_forward, "ours": padded_forward}
ROUNDS = 5


@click.command(help=__doc__)
@click.option("--size", type=click.Choice(list(SIZES)), default="mini", show_default=True)
@click.option("--seconds", default=5.0, show_default=True, help="Length of the longest utterance.")
@click.option("--utterances", default=8, show_default=True, help="Utterances per batch.")
@click.option("--threads", default=1, show_default=True)
def main(size: str, seconds: float, utterances: int, threads: int) -> None:
    """Check that both are equal, then time them."""
    print(processor())
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    encoder = VGGRNNEncoder(**SIZES[size], dropout=0.0).train()
    longest = round(seconds * 100)
    features = torch.randn(utterances, longest, SIZES[size]["input_size"])
    lengths = torch.linspace(longest, longest * 0.6, utterances).long()

    def step(name: str) -> tuple[Tensor, list[Tensor]]:
        torch.nn.LSTM.forward = FORWARDS[name]  # type: ignore[method-assign]
        encoder.zero_grad()
        y, *_ = encoder(features, lengths)
        y.square().mean().backward()
        return y.detach(), [p.grad.clone() for p in encoder.parameters() if p.grad is not None]

    (y, gradients), (other, others) = step("torch"), step("ours")
    torch.testing.assert_close(other, y, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(others, gradients, atol=1e-4, rtol=1e-2)
    times: dict[str, list[float]] = {name: [] for name in FORWARDS}
    for _ in range(ROUNDS):
        for name in FORWARDS:
            started = time.perf_counter()
            step(name)
            times[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(values) for name, values in times.items()}
    result = {f"seconds_{name}": value for name, value in medians.items()}
    result["speedup"] = medians["torch"] / medians["ours"]
    for name, value in result.items():
        print(f"{name}: {value:.3f}")
    print(json.dumps({"size": size, "seconds": seconds, "utterances": utterances, "threads": threads, **result}))


if __name__ == "__main__":
    main()
