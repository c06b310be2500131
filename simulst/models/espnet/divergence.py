"""The head that foresees divergence, on the last layer of a decoder (see simulst/training/divergence.py)."""

from __future__ import annotations

import hashlib
import io

import torch
from torch import Tensor, nn

from simulst.models.espnet.experiment import DIVERGENCE, Experiment


class DivergenceHead(nn.Module):
    """One hidden layer: (..., width) → log(1 + D), (...), where D is the expected divergence in nats."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, states: Tensor) -> Tensor:
        return self.layers(states)[..., 0]

    @torch.inference_mode()
    def foresee(self, state: Tensor) -> float:
        """D of one state, (width,)."""
        return float(self(state.float()).expm1())


def digest_of(experiment: Experiment) -> str:
    """By which a head knows the weights that it was trained for: a training that begins again reuses their name."""
    return hashlib.sha256(experiment.read(experiment.checkpoint)).hexdigest()


def head_of(experiment: Experiment, device: str) -> DivergenceHead | None:
    """The head that was trained for these weights; None: there is none."""
    content = experiment.beside(DIVERGENCE)
    if content is None:
        return None
    stored = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    if stored["of"] != digest_of(experiment):
        return None
    hidden, width = stored["weights"]["layers.0.weight"].shape
    head = DivergenceHead(width, hidden)
    head.load_state_dict(stored["weights"])
    return head.to(device).eval()
