"""Data of sounds that are made up: a data directory, and a folder in the layout of IWSLT's organisers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import soundfile
import yaml

from simulst.data.datadir import write_data_dir


def write(folder: Path, audio: Mapping[str, np.ndarray], texts: Mapping[str, dict[str, str]]) -> Path:
    """audio: utterance → samples, (n,) float32 at 16 kHz. texts: language of a text file → utterance → text."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, samples in audio.items():
        soundfile.write(folder / f"{name}.wav", samples, 16000, subtype="FLOAT")
    tables = {"wav.scp": {name: f"{name}.wav" for name in audio}, "utt2spk": dict.fromkeys(audio, "s")}
    write_data_dir(folder, tables | {f"text.{language}": text for language, text in texts.items()})
    return folder


def write_iwslt(
    folder: Path,
    audio: Mapping[str, np.ndarray],
    rows: Iterable[tuple[str, float, float]],
    texts: Mapping[str, Iterable[str]],
) -> Path:
    """audio: recording → samples, as above. rows: recording, offset and duration (s) of each sentence.

    texts: language → sentences.
    """
    (folder / "audio").mkdir(parents=True)
    for name, samples in audio.items():
        soundfile.write(folder / f"audio/{name}.wav", samples, 16000, subtype="PCM_16")
    segments = [{"wav": f"{name}.wav", "offset": offset, "duration": duration} for name, offset, duration in rows]
    (folder / "audio-segments.yaml").write_text(yaml.safe_dump(segments))
    for language, lines in texts.items():
        (folder / f"{language}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder
