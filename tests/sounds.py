"""A data directory of sounds that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import soundfile

from simulst.data.datadir import write_data_dir


def write(folder: Path, audio: Mapping[str, np.ndarray], texts: Mapping[str, dict[str, str]]) -> Path:
    """audio: utterance → samples, (n,) float32 at 16 kHz. texts: language of a text file → utterance → text."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, samples in audio.items():
        soundfile.write(folder / f"{name}.wav", samples, 16000, subtype="FLOAT")
    tables = {"wav.scp": {name: f"{name}.wav" for name in audio}, "utt2spk": dict.fromkeys(audio, "s")}
    write_data_dir(folder, tables | {f"text.{language}": text for language, text in texts.items()})
    return folder
