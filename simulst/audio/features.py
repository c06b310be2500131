"""Log-mel features that do not depend on how the audio is cut into pieces.

They equal those of ESPnet's DefaultFrontend: frame i covers the samples around i * hop, the audio is mirrored at both
ends, and mel energies are in natural logarithm. To the last bit, a frame depends only on the audio and on its number,
so there is no state to keep between pieces of audio.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from simulst.audio.mel import MelBands, power_spectrum
from simulst.errors import SimulstError

Normalize = Callable[[torch.Tensor], torch.Tensor]
KNOWN = {"fs", "n_fft", "win_length", "hop_length", "window", "center", "normalized", "onesided", "apply_stft"}
KNOWN |= {"n_mels", "fmin", "fmax", "htk", "frontend_conf"}  # the filters themselves are among the weights
"""The options of ESPnet's DefaultFrontend."""
FLOOR = 1e-10  # of mel energies, as ESPnet's LogMel has it


class LogMel:
    """Frames of log-mel energies.

    mel: filters, (bins, mels), bins = n_fft / 2 + 1.
    n_fft: size of the Fourier transform, in samples.
    win_length: length of the window, in samples; None: n_fft.
    hop: samples between frames.
    window: name of a window function of torch; None: no window.

    Raises SimulstError: the sizes do not fit together; torch has no such window.
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
        self._half = n_fft // 2
        self._before = (n_fft - self.win_length) // 2  # a window shorter than n_fft is centred in it
        self._reach = self._before + self.win_length - self._half
        self._window = make(self.win_length).numpy()
        self._bands = MelBands(mel.detach().float().cpu().numpy().T)
        self._like = mel[:0]

    @property
    def dims(self) -> int:
        """Features per frame."""
        return self._bands.count

    def count(self, samples: int, final: bool) -> int:
        """The number of frames that the first `samples` samples determine.

        Audio of n_fft / 2 samples or less cannot be mirrored, so it has no frames.

        final: no more audio follows; the last frames then cover the mirrored end.
        """
        if samples <= self._half:
            return 0
        missing = self.n_fft - 2 * self._half if final else self._reach
        return max(0, (samples - missing) // self.hop + 1)

    def samples(self, frames: int) -> int:
        """The smallest number of samples that determines `frames` frames while more audio follows.

        frames: at least 1.
        """
        return max((frames - 1) * self.hop + self._reach, self._half + 1)

    def keep_from(self, frame: int) -> int:
        """The first sample that may still be needed after all frames before `frame` have been computed."""
        return max(0, frame * self.hop - 2 * self.n_fft)

    def frames(self, audio: np.ndarray, start: int, first: int, last: int) -> torch.Tensor:
        """Compute the frames `first` (included) to `last` (excluded).

        audio: (n,) float32, the samples from number `start` on. They are mirrored at their end, which only affects
            frames from number `count(start + n, final=False)` on.
        start: number of the first sample in `audio`, at most `keep_from(first)`.

        Returns: (frames, mels).
        """
        if last <= first:
            return self._like.new_zeros(0, self.dims)
        begin = first * self.hop - self._half + self._before - start
        samples = self._around(audio, begin, begin + (last - 1 - first) * self.hop + self.win_length, start)
        pieces = np.lib.stride_tricks.sliding_window_view(samples, self.win_length)[:: self.hop] * self._window
        energies = self._bands(power_spectrum(pieces, self.n_fft)).T
        return torch.from_numpy(np.log(np.maximum(energies, FLOOR, order="C"))).to(self._like)

    def _around(self, audio: np.ndarray, begin: int, stop: int, start: int) -> np.ndarray:
        """The samples audio[begin:stop], which may reach beyond both ends of the whole audio. start: as in `frames`."""
        if begin >= 0 and stop <= audio.size:
            return audio[begin:stop]
        end = start + audio.size - 1
        positions = np.abs(np.arange(start + begin, start + stop))
        positions = np.where(positions > end, 2 * end - positions, positions)
        # Positions that are still out of range lie outside the window.
        return audio[np.clip(positions - start, 0, audio.size - 1)]


def log_mel_of(conf: dict[str, Any], mel: torch.Tensor, sample_rate: int, kind: type[LogMel] = LogMel) -> LogMel:
    """The front end of an ESPnet model.

    conf: `frontend_conf` of its configuration.
    mel: filters of its weights, `frontend.logmel.melmat`, (bins, mels).
    sample_rate: Hz.
    kind: the class of features.

    Raises SimulstError: the model has another sample rate, or uses processing that is not implemented here.
    """
    rate = str(conf.get("fs", 16000)).lower().removesuffix("hz").strip()
    rate_hz = float(rate[:-1]) * 1000 if rate.endswith("k") else float(rate)
    if rate_hz != sample_rate:
        raise SimulstError(f"frontend: the model was trained on audio of {rate_hz:g} Hz; {sample_rate} Hz is needed.")
    if unknown := sorted(conf.keys() - KNOWN):
        raise SimulstError(f"frontend_conf: {unknown[0]} is not implemented; train without it.")
    usual = {"center": True, "normalized": False, "onesided": True, "apply_stft": True}
    enhancement = conf.get("frontend_conf") or {}
    for name, value in usual.items():
        if conf.get(name, value) != value:
            raise SimulstError(f"frontend: {name}: {conf[name]} is not implemented; the model needs {name}: {value}.")
    if enhancement.get("use_wpe") or enhancement.get("use_beamformer"):
        raise SimulstError("frontend: dereverberation and beam forming are not implemented.")
    return kind(
        mel, conf.get("n_fft", 512), conf.get("win_length"), conf.get("hop_length", 128), conf.get("window", "hann")
    )
