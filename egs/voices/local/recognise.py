"""Recognise short recordings with Whisper base, to compare the transcripts with the texts of the lines.

Only a short window is encoded, the speech and two seconds of silence. The rest is filled with the encoder's output for
silence, as a decoder that sees only a short window repeats itself. Results are written to a file at once, so that a
killed run can be resumed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from tqdm import tqdm

from lines import samples
from simulst.audio.units import FRAME, SAMPLE_RATE
from simulst.errors import SimulstError

FFT = 400
MELS = 80
PADDING = 2.0  # seconds of silence that are encoded after the speech
FILLED = 12.0  # seconds that the decoder sees at least; 30 s, as the model was trained, would take twice as long
WINDOW = 30.0  # seconds, of the model
SILENCE = -0.5  # a log-mel value of silence after speech, in Whisper's scaling
BATCH = 8
TOKENS = 200  # most of a line


def recognise(clips: Mapping[str, bytes], language: str, model: Path, cache: Path) -> dict[str, str]:
    """Transcribe clips with Whisper base.

    clips: name → samples in the games' format (see `lines`).
    model: folder that `whisper_base.fetch_whisper` wrote. The model is loaded only if it is needed.
    cache: a file of JSON lines. Clips in it are not recognised again; new results are added batch by batch.

    Returns: name → text.
    Raises SimulstError: the model can't be loaded.
    """
    digests = {name: hashlib.sha256(clip).hexdigest()[:16] for name, clip in clips.items()}
    known = _read_cache(cache)
    heard = {name: known[name, digest] for name, digest in digests.items() if (name, digest) in known}
    left = sorted(clips.keys() - heard.keys(), key=lambda name: (len(clips[name]), name))
    if not left:
        return heard
    recogniser = Recogniser(model, language)
    cache.parent.mkdir(parents=True, exist_ok=True)
    with cache.open("a", encoding="utf-8") as file, tqdm(total=len(left), desc=f"{cache.stem}: recognise") as progress:
        if cache.stat().st_size and not cache.read_bytes().endswith(b"\n"):
            file.write("\n")  # after a line that a kill cut off
        for first in range(0, len(left), BATCH):
            batch = left[first : first + BATCH]
            for name, text in zip(batch, recogniser.texts([samples(clips[name]) for name in batch]), strict=True):
                heard[name] = text
                row = {"name": name, "digest": digests[name], "text": text}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
            progress.update(len(batch))
    return heard


def _read_cache(cache: Path) -> dict[tuple[str, str], str]:
    """Name and digest → text; half-written lines are ignored."""
    known = {}
    for line in cache.read_text(encoding="utf-8", errors="replace").splitlines() if cache.is_file() else ():
        with suppress(ValueError, KeyError, TypeError):
            row = json.loads(line)
            known[str(row["name"]), str(row["digest"])] = str(row["text"])
    return known


class Recogniser:
    """Whisper in CTranslate2 form, greedy and in batches. This class alone knows CTranslate2.

    threads: 0: all cores. Raises SimulstError: a folder without the model, or with another.
    """

    def __init__(self, folder: Path, language: str, threads: int = 0) -> None:
        import ctranslate2
        import librosa
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._model = ctranslate2.models.Whisper(
                str(folder), device="cpu", compute_type="int8", intra_threads=threads
            )
        except Exception as error:  # the tokenizers' errors have no class of their own
            reason = str(error).splitlines()[0]
            raise SimulstError(f"{folder}: the model cannot be loaded ({reason}); delete it and run again.") from error
        self._filters = librosa.filters.mel(sr=SAMPLE_RATE, n_fft=FFT, n_mels=MELS).astype(np.float32)
        start = ("<|startoftranscript|>", f"<|{language}|>", "<|transcribe|>", "<|notimestamps|>")
        self._prompt = [self._tokenizer.token_to_id(token) for token in start]
        self._silence = self._encode(np.full((1, MELS, round(FILLED * SAMPLE_RATE / FRAME)), SILENCE, np.float32))

    def texts(self, clips: Sequence[np.ndarray]) -> list[str]:
        """What is said in recordings, each of shape (n,), 16 kHz and at most 30 s; best of about the same length."""
        import ctranslate2

        seconds = min(max(clip.size for clip in clips) / SAMPLE_RATE + PADDING, WINDOW)
        frames = 2 * math.ceil(seconds * SAMPLE_RATE / FRAME / 2)  # the encoder halves it
        states = self._encode(np.stack([log_mel(clip, frames, self._filters) for clip in clips]))
        silence = np.repeat(self._silence[:, states.shape[1] :], len(clips), axis=0)
        encoded = ctranslate2.StorageView.from_array(np.concatenate([states, silence], axis=1))
        results = self._model.generate(
            encoded, [self._prompt] * len(clips), beam_size=1, max_length=TOKENS, suppress_blank=True
        )
        return [self._tokenizer.decode(result.sequences_ids[0], skip_special_tokens=True).strip() for result in results]

    def _encode(self, features: np.ndarray) -> np.ndarray:
        import ctranslate2

        return np.array(self._model.encode(ctranslate2.StorageView.from_array(features), to_cpu=True))


def log_mel(samples: np.ndarray, frames: int, filters: np.ndarray) -> np.ndarray:
    """Whisper's input (Radford et al. 2022, section 2.2): shape (mels, frames), of the audio with silence after it."""
    padded = np.zeros(frames * FRAME, np.float32)
    padded[: samples.size] = samples[: padded.size]
    pieces = np.lib.stride_tricks.sliding_window_view(np.pad(padded, FFT // 2, mode="reflect"), FFT)[::FRAME][:frames]
    window = np.hanning(FFT + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(pieces * window, axis=1)).astype(np.float32) ** 2
    log = np.log10(np.maximum(filters @ power.T, 1e-10))
    return np.ascontiguousarray((np.maximum(log, log.max() - 8.0) + 4.0) / 4.0)
