"""ESPnet's default front end with pitch features after the log-mel features (see simulst/audio/pitch.py)."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch
from espnet2.asr.frontend.default import DefaultFrontend

from simulst.audio.pitch import PITCH_DIMS, pitch_features

NAME = "log_mel_pitch"
"""What a training configuration calls it, as `frontend`."""


class LogMelPitchFrontend(DefaultFrontend):
    """Log-mel and pitch features of audio at 16 kHz. The options are those of DefaultFrontend."""

    def output_size(self) -> int:
        return super().output_size() + PITCH_DIMS

    def forward(self, input: torch.Tensor, input_lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Audio (B, n) and its lengths (B,) → features (B, frames, mels + 3) and their lengths (B,).

        The pitch is computed on the CPU.
        """
        mels, counts = super().forward(input, input_lengths)
        pitch = np.zeros((*mels.shape[:2], PITCH_DIMS), dtype=np.float32)
        rows = zip(input.cpu().numpy(), input_lengths.tolist(), counts.tolist(), pitch, strict=True)
        for audio, length, count, out in rows:
            out[:count] = pitch_features(audio[:length], 0, 0, count, self.hop_length)
        return torch.cat([mels, torch.from_numpy(pitch).to(mels)], 2), counts


def register(task: str) -> None:
    """Make the front end known to one of ESPnet's tasks. task: `st` or `asr`."""
    choices: Any = importlib.import_module(f"espnet2.tasks.{task}").frontend_choices
    choices.classes[NAME] = LogMelPitchFrontend
