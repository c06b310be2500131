"""Training speed of ESPnet's contextual-block Conformer, and the cost of its Python loops over blocks.

    python benchmarks/blockwise_training.py [--size mini|paper] [--seconds 5] [--utterances 15] [--threads 2]

ESPnet cuts its input into blocks and joins their outputs with one slice assignment per block. The layers in between run
over all blocks at once. This benchmark compares it with the same encoder whose loops are written as tensor operations.
Outputs and gradients are equal. Both encoders run forward and backward in turns. The last line is JSON.
"""

from __future__ import annotations

import json
import logging
import math
import statistics
import time
from typing import Any

import click
import torch
from torch import Tensor

from simulst.machine.processor import processor

logging.disable(logging.WARNING)
from espnet2.asr.encoder.contextual_block_conformer_encoder import (  # noqa: E402
    ContextualBlockConformerEncoder,
    make_pad_mask,
)

SIZES: dict[str, dict[str, Any]] = {
    "mini": {"output_size": 96, "linear_units": 384, "num_blocks": 4, "macaron_style": False},
    "paper": {"output_size": 256, "linear_units": 2048, "num_blocks": 18, "macaron_style": True},
}
MELS = {"mini": 40, "paper": 80}
ROUNDS = 5


class WithoutLoops(ContextualBlockConformerEncoder):
    """The same encoder without loops, for utterances of more than one block."""

    def forward_train(self, xs_pad: Tensor, ilens: Tensor, prev_states: Any = None) -> tuple[Tensor, Tensor, None]:
        masks = (~make_pad_mask(ilens)[:, None, :]).to(xs_pad.device)
        x, masks = self.embed(xs_pad, masks)
        batch, frames, width = x.shape
        block, hop, ahead = self.block_size, self.hop_size, self.look_ahead
        count = math.ceil((frames - block + hop) / hop)
        missing = (count - 1) * hop + block - frames
        last = block - missing

        def cut(sequence: Tensor) -> Tensor:
            """(B, frames, width) → (B, count, block, width), zeros after the end."""
            return torch.nn.functional.pad(sequence, (0, 0, 0, missing)).unfold(1, block, hop).transpose(2, 3)

        sizes = x.new_full((count, 1), block)
        sizes[-1] = last
        averages = self.pos_enc(cut(x).sum(2) / sizes)
        before = torch.cat([averages[:, :1], averages[:, :-1]], 1)
        chunks = torch.cat([before[:, :, None], cut(self.pos_enc(x)), averages[:, :, None]], 2)
        mask = x.new_zeros(batch, count, block + 2, block + 2)
        mask[:, :, 1:, : block + 1] = 1
        chunks, *_ = self.encoders(chunks, mask, False, chunks)
        chunks = chunks[:, :, 1:-1]
        first = block - ahead
        middle = chunks[:, 1:-1, first - hop : first].reshape(batch, -1, width)
        y = torch.cat([chunks[:, 0, :first], middle, chunks[:, -1, first - hop : last]], 1)
        return self.after_norm(y), masks.squeeze(1).sum(1), None


@click.command(help=__doc__)
@click.option("--size", type=click.Choice(list(SIZES)), default="mini", show_default=True)
@click.option("--seconds", default=5.0, show_default=True, help="Length of each utterance.")
@click.option("--utterances", default=15, show_default=True, help="Utterances per batch.")
@click.option("--threads", default=2, show_default=True)
@click.option("--device", default="cpu", show_default=True)
def main(size: str, seconds: float, utterances: int, threads: int, device: str) -> None:
    """Check that both encoders are equal, then time them."""
    print(processor())
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    options = {**SIZES[size], "attention_heads": 4, "cnn_module_kernel": 15, "init_average": True, "ctx_pos_enc": True}
    options |= {"block_size": 40, "hop_size": 16, "look_ahead": 16}
    options |= dict.fromkeys(("dropout_rate", "positional_dropout_rate", "attention_dropout_rate"), 0.0)
    theirs = ContextualBlockConformerEncoder(MELS[size], **options).to(device).train()
    ours = WithoutLoops(MELS[size], **options).to(device).train()
    ours.load_state_dict(theirs.state_dict())
    features = torch.randn(utterances, round(seconds * 100), MELS[size], device=device)
    lengths = torch.full((utterances,), features.shape[1], device=device)

    def step(encoder: torch.nn.Module) -> tuple[Tensor, list[Tensor]]:
        encoder.zero_grad()
        y, *_ = encoder(features, lengths)
        y.square().mean().backward()
        if device != "cpu":
            torch.cuda.synchronize()
        return y, [p.grad for p in encoder.parameters() if p.grad is not None]

    (y, gradients), (other, others) = step(theirs), step(ours)
    torch.testing.assert_close(other, y, atol=1e-4, rtol=1e-3)
    for gradient, another in zip(gradients, others, strict=True):
        torch.testing.assert_close(another, gradient, atol=1e-4, rtol=1e-2)
    times: dict[str, list[float]] = {"espnet": [], "without_loops": []}
    for _ in range(ROUNDS):
        for name, encoder in (("espnet", theirs), ("without_loops", ours)):
            started = time.perf_counter()
            step(encoder)
            times[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(values) for name, values in times.items()}
    result = {
        **{f"seconds_{name}": value for name, value in medians.items()},
        "speedup": medians["espnet"] / medians["without_loops"],
        "updates_per_second": 1 / medians["espnet"],
        "audio_seconds_per_second": seconds * utterances / medians["espnet"],
    }
    for name, value in result.items():
        print(f"{name}: {value:.3f}")
    print(json.dumps({"size": size, "seconds": seconds, "utterances": utterances, "threads": threads, **result}))


if __name__ == "__main__":
    main()
