"""Write a small folder in the layout of IWSLT's simultaneous track: recordings of a minute, some of them films."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from random import Random

import av
import click
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[3] / "local"))  # what recipes share

from corpora.recordings import Placed, grouped, write_recording
from prepare_iwslt import LISTING
from simulst.audio.read import as_int16, load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.commands.common import PATH, force_option, language_options, run_command
from simulst.data.datadir import Utterance, read_data_dir, text_file
from simulst.files.folder import digest, write_atomically, written_whole
from simulst.files.table import read_table

VERSION = 1  # of the recordings; another one has other bytes
PAUSE = (0.3, 1.2)  # seconds between utterances, and at both ends
FILM_RATE = 44_100  # Hz, as films have
IMAGES = 1  # a second


def make_small(
    data: Path, out: Path, languages: Sequence[str], seconds: float = 60.0, seed: int = 0, force: bool = False
) -> int:
    """Join the utterances of a data directory to recordings in `out/audio`; every other one is an MP4.

    languages: those of the texts.
    seconds: of a recording, about.
    seed: of the pauses.
    force: write them again.

    Returns: how many recordings there are.
    Raises SimulstError: what `read_data_dir`, `load_audio` and `written_whole` raise.
    """
    utterances = read_data_dir(data, languages[0])
    texts = {language: read_table(text_file(data, language), allow_empty=True) for language in languages}
    speech = {u.name: load_audio(u.wav, u.start, u.end) for u in utterances}
    talks = grouped(utterances, [speech[u.name].size / SAMPLE_RATE for u in utterances], seconds, seconds)
    made_of = {"version": VERSION, "seconds": seconds, "seed": seed, "utterances": digest(map(str, utterances))}
    with written_whole(out, made_of, force) as part:
        if part is None:
            return len(talks)
        (part / "audio").mkdir()
        lines = []
        for number, talk in enumerate(talks, start=1):
            name, rng = f"{languages[0]}{number}", Random(f"{seed} {number}")
            placed, samples = _laid_out(talk, speech, rng)
            wav = part / "audio" / f"{name}.wav"
            write_recording(wav, samples, placed)
            if number % 2 == 0:
                write_film(wav.with_suffix(".mp4"), load_audio(wav))
                wav.unlink()
            for first, audio in placed:
                times = f"duration: {audio.size / SAMPLE_RATE}, offset: {first / SAMPLE_RATE}"
                lines.append(f"- {{{times}, speaker_id: {name}, wav: {name}.wav}}\n")
        write_atomically(part / LISTING, "".join(lines))
        for language, table in texts.items():
            write_atomically(part / f"{language}.txt", "".join(f"{table[u.name]}\n" for talk in talks for u in talk))
    return len(talks)


def _laid_out(talk: Sequence[Utterance], speech: dict[str, np.ndarray], rng: Random) -> tuple[list[Placed], int]:
    """Where the utterances lie, and samples of the recording."""
    placed, at = list[Placed](), round(rng.uniform(*PAUSE) * SAMPLE_RATE)
    for utterance in talk:
        placed.append((at, speech[utterance.name]))
        at += speech[utterance.name].size + round(rng.uniform(*PAUSE) * SAMPLE_RATE)
    return placed, at


def write_film(path: Path, samples: np.ndarray) -> None:
    """Write an MP4 with sound (AAC) and a black image. samples: (n,), float32, 16 kHz."""
    with av.open(str(path), "w") as film:
        image = film.add_stream("mpeg4", rate=IMAGES, width=64, height=48, pix_fmt="yuv420p")
        sound = film.add_stream("aac", rate=FILM_RATE, layout="stereo")
        for number in range(max(1, samples.size * IMAGES // SAMPLE_RATE)):
            black = av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), format="rgb24")
            black.pts, black.time_base = number, Fraction(1, IMAGES)
            film.mux(image.encode(black))
        film.mux(image.encode())
        heard = av.AudioFrame.from_ndarray(as_int16(samples)[None], format="s16", layout="mono")
        heard.sample_rate, heard.pts, heard.time_base = SAMPLE_RATE, 0, Fraction(1, SAMPLE_RATE)
        resampler = av.AudioResampler(format="fltp", layout="stereo", rate=FILM_RATE)
        for frame in [*resampler.resample(heard), *resampler.resample(None)]:
            film.mux(sound.encode(frame))
        film.mux(sound.encode())


# ---- command ----


@click.command()
@click.option("--data", required=True, type=PATH, help="Data directory of short recordings.")
@click.option("--out", required=True, type=PATH, help="Folder to write.")
@language_options
@click.option("--seconds", default=60.0, show_default=True, type=click.FloatRange(1), help="Of a recording, about.")
@force_option("Write the folder again.")
def main(data: Path, out: Path, source_lang: str, target_lang: str, seconds: float, force: bool) -> None:
    """Write a small folder in the layout of IWSLT's simultaneous track."""
    print(f"{out}: {make_small(data, out, (source_lang, target_lang), seconds, force=force)} recordings")


if __name__ == "__main__":
    run_command(main)
