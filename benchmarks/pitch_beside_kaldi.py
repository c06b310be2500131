"""The pitch of simulst/audio/pitch.py beside Kaldi's, frame by frame.

    pip install kaldi-native-fbank==1.23.0      # has Kaldi's pitch; nothing else here needs it
    python benchmarks/pitch_beside_kaldi.py --data egs/mini/data/en-de/dev [--limit 50]

A frame is voiced if both find a correlation of at least 0.7 between periods. Kaldi's frames are centred half a hop
later, and it looks for the best path through all frames. The last line is JSON:

    voiced          share of frames that both call voiced; agree: share of frames with the same verdict of both
    within_2, within_5, within_20    share of the voiced frames whose pitches differ by at most 2, 5 and 20 %
    median          of the difference on voiced frames, in %
    correlation     of the correlation of periods, on all frames, and of normalised pitch and its change, on the voiced
                    frames within 20 %
"""

from __future__ import annotations

import json
from pathlib import Path

import click
import kaldi_native_fbank
import numpy as np

from simulst.audio.pitch import _pitch, _slow, pitch_features
from simulst.audio.read import load_audio
from simulst.audio.units import FRAME
from simulst.data.datadir import read_data_dir

VOICED = 0.7


def kaldis(audio: np.ndarray, frames: int) -> np.ndarray:
    """Kaldi's features, (frames, 4): voicing, normalised log pitch, its change, log pitch."""
    options, process = kaldi_native_fbank.PitchExtractionOptions(), kaldi_native_fbank.ProcessPitchOptions()
    options.snip_edges = False
    process.add_raw_log_pitch = True
    process.delta_pitch_noise_stddev = 0.0
    found = np.asarray(kaldi_native_fbank.compute_and_process_kaldi_pitch(options, process, (audio * 32768).tolist()))
    return found.reshape(-1, 4)[:frames]


@click.command(help=__doc__)
@click.option("--data", required=True, type=click.Path(exists=True, path_type=Path), help="Data directory.")
@click.option("--limit", default=50, show_default=True, help="Utterances.")
def main(data: Path, limit: int) -> None:
    """Compare."""
    text = next(data.glob("text.*")).name.removeprefix("text.")
    rows = []
    for utterance in read_data_dir(data, text)[:limit]:
        audio = load_audio(utterance.wav, utterance.start, utterance.end)
        frames = len(audio) // FRAME
        theirs = kaldis(audio, frames)
        voicing, pitch = _pitch(_slow(audio, 0, 0, len(theirs), FRAME), FRAME // 4)
        ours = pitch_features(audio, 0, 0, len(theirs), FRAME)
        correlation = 1.0001 - (theirs[:, 0] / 2 + 1) ** (1 / 0.15)  # of periods, which Kaldi bends so
        rows.append(np.column_stack([voicing, pitch, correlation, theirs[:, 3], ours, theirs[:, :3]]))
    table = np.concatenate(rows)
    voiced_here, voiced_there = table[:, 0] >= VOICED, table[:, 2] >= VOICED
    both = voiced_here & voiced_there
    apart = 100 * np.abs(np.exp(table[both, 1] - table[both, 3]) - 1)
    found = {"frames": len(table), "voiced": both.mean(), "agree": (voiced_here == voiced_there).mean()}
    found |= {f"within_{limit}": (apart <= limit).mean() for limit in (2, 5, 20)} | {"median": float(np.median(apart))}
    near = both.copy()
    near[both] = apart <= 20  # one error of an octave outweighs a thousand frames in a correlation
    pairs = [(table[:, 0], table[:, 2]), (table[near, 5], table[near, 8]), (table[near, 6], table[near, 9])]
    found["correlation"] = [round(float(np.corrcoef(a, b)[0, 1]), 3) for a, b in pairs]
    print(json.dumps({name: round(float(v), 4) if isinstance(v, float) else v for name, v in found.items()}))


if __name__ == "__main__":
    main()
