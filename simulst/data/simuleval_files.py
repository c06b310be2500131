"""Export a data directory as files that SimulEval reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from simulst.audio.read import as_int16, load_audio, write_wav
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.files.folder import replacing, write_atomically


def export_for_simuleval(utterances: Sequence[Utterance], out: Path) -> None:
    """Write wav/NAME.wav (16 kHz mono), source.txt (their paths) and target.txt (the references).

    A WAV holds the samples of `load_audio`: in 16 bits if they fit there, else as floats, as rounded samples can give
    other words. A killed export can be run again: each file is written whole, and the lists are written last.

    Raises SimulstError: there are no utterances; a name cannot be a file name; audio cannot be read.
    """
    if not utterances:
        raise SimulstError(f"{out}: there is no utterance to export; check the data directory.")
    folder = out.resolve() / "wav"
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for utterance in utterances:
        if "/" in utterance.name or "\0" in utterance.name:
            raise SimulstError(f"{out}: the utterance '{utterance.name}' cannot name a file; rename it.")
        path = folder / f"{utterance.name}.wav"
        samples = load_audio(utterance.wav, utterance.start, utterance.end)
        subtype = "PCM_16" if np.array_equal(as_int16(samples) / 32768, samples) else "FLOAT"
        with replacing(path) as part:
            write_wav(part, samples, subtype)
        paths.append(path)
    write_atomically(out / "source.txt", "".join(f"{path}\n" for path in paths))
    # SimulEval pairs the lists by line number, so each text must stay on one line.
    references = [re.sub(r"[\r\n]+", " ", utterance.reference) for utterance in utterances]
    write_atomically(out / "target.txt", "".join(f"{text}\n" for text in references))
