"""Talks to measure long streams on: whole recordings with the sentences in them.

`whole_recordings` takes the recordings that a data directory has. `join` makes recordings of utterances that have files
of their own, with pauses between. Both write a data directory whose utterances are whole recordings, and in it
    talks.yaml, talks.<language>  the sentences as MuST-C has them, for `simulst score --segmentation --references`
    gaps.tsv                      of `join`: recording, offset, duration (seconds) and kind of each long gap
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Literal, get_args

import click
import numpy as np

from corpora.recordings import Placed, grouped, write_recording
from gaps import KINDS, gap
from simulst.audio.name import recording_name
from simulst.audio.read import load_audio, seconds_of
from simulst.audio.units import SAMPLE_RATE
from simulst.commands.common import PATH, force_option, language_options, run_command
from simulst.data.datadir import Utterance, check_has, read_data_dir, text_file, write_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import digest, written_whole
from simulst.files.table import read_table
from simulst.languages import unit_of

Pauses = Literal["natural", "long"]
PAUSES: tuple[Pauses, ...] = get_args(Pauses)
PAUSE = (0.3, 1.2)  # seconds between utterances, and at both ends
GAP = 30.0  # seconds
BETWEEN_GAPS = 60.0  # seconds of speech and pauses, at least, before a gap
SHORTEST = 600.0  # seconds of a talk, if there is so much
VERSION = 1  # of joined talks; another one has other bytes


@dataclass(frozen=True)
class _Spoken:
    """An utterance of a recording, with its text in each language."""

    utterance: Utterance
    speaker: str
    texts: Mapping[str, str]


def whole_recordings(data: Path, out: Path, source: str, target: str, force: bool = False) -> None:
    """Write the recordings of a data directory as talks; their files stay where they are.

    source, target: languages.
    force: write them again.

    Raises SimulstError: two recordings have the same file name; what `read_data_dir` and `written_whole` raise.
    """
    spoken = _read(data, source, target)
    with written_whole(out, _made_of(spoken), force) as part:
        if part is not None:
            _write(part, spoken, source, target, {s.utterance.wav: _relative(s.utterance.wav, out) for s in spoken})


def join(
    data: Path, out: Path, source: str, target: str, pauses: Pauses = "natural", seed: int = 0, force: bool = False
) -> None:
    """Join the utterances of a data directory to talks of SHORTEST seconds and more, in `out/wav`.

    pauses: "natural" ones of PAUSE seconds; "long": also GAP seconds of silence, noise and music in turn, each after
        at least BETWEEN_GAPS seconds without.
    seed: another one gives other pauses, noise and music; the same one gives the same bytes.

    Raises SimulstError: audio can't be read; what `read_data_dir` and `written_whole` raise.
    """
    spoken = _read(data, source, target)
    lengths = [load_audio(s.utterance.wav, s.utterance.start, s.utterance.end).size / SAMPLE_RATE for s in spoken]
    made_of = {**_made_of(spoken), "version": VERSION, "pauses": pauses, "seed": seed}
    with written_whole(out, made_of, force) as part:
        if part is None:
            return
        (part / "wav").mkdir()
        joined: list[_Spoken] = []
        gaps = []
        for n, talk in enumerate(grouped(spoken, lengths, SHORTEST, SHORTEST), start=1):
            wav = Path("wav") / f"{source}-{pauses}-{n}.wav"
            placed, found, samples = _laid_out(talk, pauses, f"{seed} {wav.name}")
            write_recording(part / wav, samples, placed)
            gaps += [f"{wav.name}\t{first / SAMPLE_RATE}\t{GAP}\t{kind}\n" for first, kind in found]
            joined += [
                replace(s, utterance=Utterance(s.utterance.name, wav, s.utterance.reference, *_seconds(first, speech)))
                for s, (first, speech) in zip(talk, placed[: len(talk)], strict=True)
            ]
        (part / "gaps.tsv").write_text("".join(gaps), encoding="utf-8")
        _write(part, joined, source, target, {s.utterance.wav: s.utterance.wav.as_posix() for s in joined})


def _laid_out(talk: Sequence[_Spoken], pauses: Pauses, seed: str) -> tuple[list[Placed], list[tuple[int, str]], int]:
    """Where the utterances, and then the gaps, of a talk lie; where each gap lies and its kind; samples of the talk."""
    rng = Random(seed)
    speech, others, found = list[Placed](), list[Placed](), list[tuple[int, str]]()
    at = since = round(rng.uniform(*PAUSE) * SAMPLE_RATE)
    for n, spoken in enumerate(talk):
        utterance = spoken.utterance
        samples = load_audio(utterance.wav, utterance.start, utterance.end)
        speech.append((at, samples))
        at += samples.size + round(rng.uniform(*PAUSE) * SAMPLE_RATE)
        if pauses == "long" and at - since >= BETWEEN_GAPS * SAMPLE_RATE and n + 1 < len(talk):
            kind = KINDS[len(found) % len(KINDS)]
            audio = gap(kind, round(GAP * SAMPLE_RATE), np.random.default_rng(list(f"{seed} {n}".encode())))
            others.append((at, audio))
            found.append((at, kind))
            at = since = at + audio.size + round(rng.uniform(*PAUSE) * SAMPLE_RATE)
    return speech + others, found, at


def _seconds(first: int, speech: np.ndarray) -> tuple[float, float]:
    return first / SAMPLE_RATE, (first + speech.size) / SAMPLE_RATE


# ---- files ----


def _read(data: Path, source: str, target: str) -> list[_Spoken]:
    utterances = read_data_dir(data, target)
    texts = {language: read_table(text_file(data, language), allow_empty=True) for language in (source, target)}
    speakers = read_table(data / "utt2spk")
    for language, table in texts.items():
        check_has(text_file(data, language), table, (utterance.name for utterance in utterances))
    check_has(data / "utt2spk", speakers, (utterance.name for utterance in utterances))
    return [_Spoken(u, speakers[u.name], {la: table[u.name] for la, table in texts.items()}) for u in utterances]


def _made_of(spoken: Sequence[_Spoken]) -> dict[str, object]:
    lines = ((s.utterance, s.speaker, s.texts) for s in spoken)
    return {"utterances": digest(f"{u.name} {u.wav.name} {u.start} {u.end} {rest}" for u, *rest in lines)}


def _relative(wav: Path, folder: Path) -> str:
    return os.path.relpath(wav.resolve(), folder.resolve())


def _write(part: Path, spoken: Sequence[_Spoken], source: str, target: str, wavs: Mapping[Path, str]) -> None:
    """Write the tables. wavs: recording → its path, relative to the folder."""
    names = {wav: recording_name(wav) for wav in wavs}
    if odd := next((wav for wav, name in names.items() if not re.fullmatch(r"[\w.+-]+", name)), None):
        raise SimulstError(f"{odd}: the name may have letters, digits and . _ + - only; rename the file.")
    if double := sorted(name for name in names.values() if [*names.values()].count(name) > 1):
        raise SimulstError(f"{part}: several recordings are called {double[0]}; rename their files.")
    order = sorted(spoken, key=lambda s: (names[s.utterance.wav], s.utterance.start))
    lines = []
    for s in order:
        u = s.utterance
        end = seconds_of(u.wav) if u.end is None else u.end
        times = f"duration: {round(end - u.start, 7)}, offset: {round(u.start, 7)}"
        lines.append(f"- {{{times}, speaker_id: {s.speaker}, wav: {names[u.wav]}.wav}}\n")
    (part / "talks.yaml").write_text("".join(lines), encoding="utf-8")
    tables: dict[str, dict[str, str]] = {"wav.scp": {names[wav]: path for wav, path in wavs.items()}}
    tables["utt2spk"] = {names[s.utterance.wav]: s.speaker for s in order}
    for language in (source, target):
        text = "".join(f"{s.texts[language]}\n" for s in order)
        (part / f"talks.{language}").write_text(text, encoding="utf-8", newline="\n")
        space = "" if unit_of(language) == "char" else " "
        tables[f"text.{language}"] = {
            name: space.join(s.texts[language] for s in order if s.utterance.wav == wav) for wav, name in names.items()
        }
    write_data_dir(part, tables)


@click.command()
@click.option("--data", required=True, type=PATH, help="Data directory.")
@click.option("--out", required=True, type=PATH, help="Folder for the talks.")
@language_options
@click.option(
    "--join",
    "pauses",
    type=click.Choice(PAUSES),
    help="Join the utterances, with natural pauses or also with 30 s of silence, noise and music.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of pauses, noise and music.")
@force_option("Write the talks again.")
def main(
    data: Path, out: Path, source_lang: str, target_lang: str, pauses: Pauses | None, seed: int, force: bool
) -> None:
    """Write talks to measure long streams on.

    They are the recordings of a data directory or, with --join, recordings made of its utterances.
    """
    if pauses is None:
        whole_recordings(data, out, source_lang, target_lang, force)
    else:
        join(data, out, source_lang, target_lang, pauses, seed, force)


if __name__ == "__main__":
    run_command(main)
