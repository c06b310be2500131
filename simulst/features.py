"""Log-mel features that are the same however the audio comes in.

They are those of ESPnet's DefaultFrontend: frame i looks at the samples around i * hop, the audio is mirrored at both
of its ends, and mel energies are in natural logarithm. A frame is a function of the audio and of its number alone, so
nothing has to be handed on from one piece of audio to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from simulst.errors import SimulstError

Normalize = Callable[[torch.Tensor], torch.Tensor]
FLOOR = 1e-10  # of mel energies, as ESPnet's LogMel has it


class LogMel:
    """Frames of log-mel energies.

    mel: (bins, mels) filters, bins = n_fft / 2 + 1. The others are those of torch.stft (samples, or the name of a
    window function; None: no window).
    Raises SimulstError: sizes that do not fit together.
    """

    def __init__(
        self,
        mel: torch.Tensor,
        n_fft: int = 512,
        win_length: int | None = None,
        hop: int = 128,
        window: str | None = "hann",
    ) -> None:
        self.n_fft, self.hop = n_fft, hop
        self.win_length = win_length or n_fft
        if not 0 < hop <= self.win_length <= n_fft or mel.shape[0] != n_fft // 2 + 1:
            raise SimulstError(
                f"frontend: hop {hop}, window {self.win_length}, n_fft {n_fft} and {mel.shape[0]} mel bins do not fit."
            )
        if window is not None and not hasattr(torch, f"{window}_window"):
            raise SimulstError(f"frontend: torch has no window '{window}'.")
        make = getattr(torch, f"{window}_window") if window else torch.ones
        self._window = make(self.win_length).to(mel)
        self._mel = mel
        self._half = n_fft // 2
        # A window shorter than n_fft stands in its middle.
        self._reach = (n_fft - self.win_length) // 2 + self.win_length - self._half

    @property
    def dims(self) -> int:
        """Features per frame."""
        return self._mel.shape[1]

    def count(self, samples: int, final: bool) -> int:
        """Frames that can be had from the first `samples` samples.

        final: no audio comes after them; the last frames then look at the mirrored end. Audio of n_fft / 2 samples or
        less cannot be mirrored and has no frames.
        """
        if samples <= self._half:
            return 0
        missing = self.n_fft - 2 * self._half if final else self._reach
        return max(0, (samples - missing) // self.hop + 1)

    def samples(self, frames: int) -> int:
        """The fewest samples with which `count` (of audio that goes on) reaches `frames`, at least 1."""
        return max((frames - 1) * self.hop + self._reach, self._half + 1)

    def keep_from(self, frame: int) -> int:
        """The first sample that may still be needed once all frames before `frame` have been made."""
        return max(0, frame * self.hop - 2 * self.n_fft)

    def frames(self, audio: np.ndarray, start: int, first: int, last: int) -> torch.Tensor:
        """Frames `first` (included) to `last` (excluded).

        audio: (n,) float32, the samples from number `start` on, from at most `keep_from(first)`. They count as mirrored
        at their end, which is seen only by frames beyond `count(start + n, final=False)`. Returns (frames, mels).
        """
        if last <= first:
            return self._mel.new_zeros(0, self.dims)
        end = start + audio.size - 1
        positions = np.abs(np.arange(first * self.hop - self._half, (last - 1) * self.hop - self._half + self.n_fft))
        positions = np.where(positions > end, 2 * end - positions, positions)
        # What is out of reach even so lies outside of the window.
        samples = torch.from_numpy(audio[np.clip(positions - start, 0, audio.size - 1)]).to(self._mel)
        spectrum = torch.stft(
            samples, self.n_fft, self.hop, self.win_length, self._window, center=False, return_complex=True
        )
        power = spectrum.real**2 + spectrum.imag**2
        return (power.T @ self._mel).clamp(min=FLOOR).log()


def log_mel_of(conf: dict[str, Any], mel: torch.Tensor, sample_rate: int) -> LogMel:
    """The front end of an ESPnet configuration.

    conf: its `frontend_conf`. mel: the filters of its weights, `frontend.logmel.melmat`.
    Raises SimulstError: another sample rate, or processing that is not implemented here.
    """
    rate = str(conf.get("fs", 16000)).lower().removesuffix("hz").strip()
    rate_hz = float(rate[:-1]) * 1000 if rate.endswith("k") else float(rate)
    if rate_hz != sample_rate:
        raise SimulstError(f"frontend: the model was trained on audio of {rate_hz:g} Hz; {sample_rate} Hz is needed.")
    usual = {"center": True, "normalized": False, "onesided": True, "apply_stft": True}
    enhancement = conf.get("frontend_conf") or {}
    for name, value in usual.items():
        if conf.get(name, value) != value:
            raise SimulstError(f"frontend: {name}: {conf[name]} is not implemented; the model needs {name}: {value}.")
    if enhancement.get("use_wpe") or enhancement.get("use_beamformer"):
        raise SimulstError("frontend: dereverberation and beam forming are not implemented.")
    return LogMel(
        mel, conf.get("n_fft", 512), conf.get("win_length"), conf.get("hop_length", 128), conf.get("window", "hann")
    )
