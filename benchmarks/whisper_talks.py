"""Whisper on whole recordings: our policies beside two peers, ufal/whisper_streaming and ufal/SimulStreaming.

    ./run.sh --recipe prompts/extras/talks --stop-stage pretrain
    python benchmarks/whisper_talks.py --out OUT --whisper-streaming CHECKOUT --simulstreaming CHECKOUT

All have the same weights. Sets of recordings: prompts (one by one), natural and long (egs/prompts' talks; long ones
have 30 s of silence, noise and music in between), silence, noise and music (ten minutes of each). Each recording is
decoded by each system in turn and logged in OUT. The same command goes on where it was; it may also add systems, sets
and languages. Peers without a checkout are not run. They need the packages faster-whisper 1.2.1 and tiktoken.

RTF counts processor time, which other processes change little. "in noise": words written in noise, a minute; in a gap
of a talk, its first five seconds do not count. Missing and extra: by how many words sentences are shorter or longer
than their references, in % of these. The paired tests compare the peers with ours, at last on all languages together.
The last line is JSON: the scores of all runs with this --out.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import soundfile
import yaml
from peers import Peer, simulstreaming, whisper_streaming
from tqdm import tqdm

from simulst.audio.read import load_audio, seconds_of
from simulst.audio.units import SAMPLE_RATE
from simulst.commands.common import Positive, Several, run_command
from simulst.config import Decoding, load_sweep
from simulst.data.datadir import Utterance, read_data_dir, write_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import write_atomically
from simulst.log.instance import Instance
from simulst.log.simuleval import read_unfinished
from simulst.machine.processor import processor
from simulst.measure.latency import real_time_factor
from simulst.measure.longform import (
    GAPS,
    Gap,
    Sentence,
    Sentences,
    read_gaps,
    read_segmentation,
    words_in_gaps,
)
from simulst.measure.score import Asked, compare
from simulst.measure.score import score as score_log
from simulst.models import load_model
from simulst.runs.decode import instance_of
from simulst.session import Model
from simulst.streams import open_stream
from simulst.words import completed_by

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "local"))
from gaps import KINDS, gap  # noqa: E402
from talks import whole_recordings  # noqa: E402
from whisper_to_huggingface import convert_whisper  # noqa: E402

RECIPE = ROOT / "egs/prompts"
SETS = ("prompts", "natural", "long", *KINDS)
GAP_SECONDS = 600.0
PIECE = SAMPLE_RATE  # samples that our streams are given at a time; what they write does not depend on it
SHOWN = ("BLEU", "BLEU_low", "BLEU_high", "LongYAAL", "StreamLAAL", "RTF", "missing", "extra")
FOLDER = click.Path(path_type=Path)


@dataclass(frozen=True)
class Recordings:
    """A set of recordings. talks: the folder with talks.yaml and talks.en; None if nothing is said in them."""

    utterances: list[Utterance]
    gaps: list[Gap]
    talks: Path | None
    settle: float = 5.0


Decode = Callable[[Utterance, int], Instance]
"""A recording and its number → the log's entry."""


class System(NamedTuple):
    """name: of its folder."""

    name: str
    decode: Decode


@click.command(help=__doc__)
@click.option("--out", required=True, type=FOLDER, help="Folder for logs and scores.")
@click.option("--model", default=RECIPE / "models/whisper-base", type=FOLDER, help="Whisper in CTranslate2's form.")
@click.option("--data", default=RECIPE / "data", type=FOLDER, help="egs/prompts' data.")
@click.option("--languages", default=("es", "fr", "it", "ru"), type=Several(str), show_default=True)
@click.option("--sets", default=SETS, type=Several(str), show_default=True)
@click.option("--decodings", default=RECIPE / "conf/talks.yaml", type=FOLDER, help="Our systems: a sweep.")
@click.option("--whisper-streaming", type=FOLDER, help="Checkout of ufal/whisper_streaming.")
@click.option("--simulstreaming", type=FOLDER, help="Checkout of ufal/SimulStreaming.")
@click.option("--beam", default=5, type=click.IntRange(1), show_default=True, help="Of SimulStreaming.")
@click.option("--frames", default=25, type=click.IntRange(1), show_default=True, help="Of SimulStreaming.")
@click.option("--chunk", default=1.0, type=Positive(), show_default=True, help="Seconds of the peers' chunks.")
@click.option("--only", default="", metavar="REGEX", help="Run only systems whose names match.")
@click.option("--minutes", default=None, type=Positive(), help="Use only so many minutes of each set.")
@click.option("--threads", default=1, type=click.IntRange(1), show_default=True)
def main(
    out: Path,
    model: Path,
    data: Path,
    languages: tuple[str, ...],
    sets: tuple[str, ...],
    decodings: Path,
    only: str,
    minutes: float | None,
    threads: int,
    **peer_options: Any,
) -> None:
    """Decode what is missing, then score all."""
    print(processor())
    if strange := set(sets) - set(SETS):
        raise SimulstError(f"--sets: there is no set {min(strange)}; choose from {', '.join(SETS)}.")
    peers = Peers(out, model, threads, **peer_options)
    ours = load_sweep(decodings)
    loaded = load_model(model, threads=threads)
    for kind in sets:
        tested: list[Tested] = []
        for language in languages:
            recordings = recordings_of(kind, language, data, out / "data", minutes)
            folder = out / (f"{language}-{kind}" + (f"-{minutes:g}min" if minutes else ""))
            systems = [System(d.label, our_decode(loaded, d, language)) for d in ours]
            systems = [s for s in [*systems, *peers.systems(language)] if re.search(only, s.name)]
            logs = dict(decode(folder, recordings, systems))
            scores = {name: score(log, recordings) for name, log in logs.items()}
            save(out / "scores.json", folder.name, scores)
            print(f"\n{folder.name}\n{table(scores)}")
            if recordings.talks:
                print_tests(logs, recordings.talks)
                tested.append(Tested(logs, recordings.talks))
        if len(tested) > 1:
            print(f"\nall of {' '.join(languages)}, {kind}")
            print_tests(*joined(tested, out / "data" / f"{'-'.join(languages)}-{kind}"))
    print((out / "scores.json").read_text(encoding="utf-8"))


# ---- recordings ----


def recordings_of(kind: str, language: str, data: Path, made: Path, minutes: float | None) -> Recordings:
    """A set. made: the folder for audio and lists that are made here. minutes: how many of them to use."""
    if kind in KINDS:
        seconds = min(60 * minutes, GAP_SECONDS) if minutes else GAP_SECONDS
        path = made / f"{kind}-{seconds:g}s.wav"
        if not path.is_file():
            made.mkdir(parents=True, exist_ok=True)
            audio = gap(kind, round(seconds * SAMPLE_RATE), np.random.default_rng(0))
            soundfile.write(path, audio, SAMPLE_RATE, subtype="PCM_16")
        return Recordings([Utterance(path.stem, path, "")], [Gap(path.stem, 0.0, seconds, kind)], None, settle=0.0)
    pair = f"{language}-en"
    if kind == "prompts":
        talks = made / f"{pair}-prompts"
        whole_recordings(named(data / pair / "tst", made / f"{pair}-named"), talks, language, "en")
    else:
        talks = data / pair / f"talks-{kind}"
        if not talks.is_dir():
            raise SimulstError(f"{talks}: missing; run ./run.sh --recipe prompts/extras/talks --stop-stage pretrain.")
    gaps = read_gaps(talks / GAPS) if kind == "long" else []
    whole = Recordings(read_data_dir(talks, "en"), gaps, talks)
    return shortened(whole, talks, minutes, made / f"{pair}-{kind}-{minutes:g}min") if minutes else whole


def named(data: Path, out: Path) -> Path:
    """Copy a data directory to `out`, where recordings have their utterances' names, as two speakers' may have one."""
    shutil.copytree(data, out, dirs_exist_ok=True)
    wavs: dict[str, str] = {}
    for utterance in read_data_dir(data, "en"):
        wavs[utterance.name] = f"{utterance.name}{utterance.wav.suffix}"
        copy = out / wavs[utterance.name]
        if not copy.is_file() or copy.stat().st_size != utterance.wav.stat().st_size:
            shutil.copyfile(utterance.wav, copy)
    write_data_dir(out, {"wav.scp": wavs})
    return out


def shortened(whole: Recordings, talks: Path, minutes: float, out: Path) -> Recordings:
    """The beginning of a set, with its sentences in `out`. talks: the folder with all sentences."""
    left, utterances = 60 * minutes, []
    for utterance in whole.utterances:
        seconds = min(seconds_of(utterance.wav), left)
        if seconds > 0:
            utterances.append(replace(utterance, end=seconds))
        left -= seconds
    ends = {u.wav.stem: u.end for u in utterances}

    def is_in(part: Sentence | Gap) -> bool:
        return part.offset + part.duration <= (ends.get(part.recording) or 0) + 1e-3

    sentences = [s for s in read_segmentation(talks / "talks.yaml", talks / "talks.en") if is_in(s)]
    out.mkdir(parents=True, exist_ok=True)
    rows = [{"wav": s.wav, "offset": s.offset, "duration": s.duration} for s in sentences]
    (out / "talks.yaml").write_text(yaml.safe_dump(rows), encoding="utf-8")
    (out / "talks.en").write_text("".join(f"{s.text}\n" for s in sentences), encoding="utf-8")
    there = {s.recording for s in sentences}
    return Recordings([u for u in utterances if u.wav.stem in there], [g for g in whole.gaps if is_in(g)], out)


# ---- systems ----


def our_decode(model: Model, decoding: Decoding, language: str) -> Decode:
    """Decoding by simulst; of a configuration of ours."""

    def decode(utterance: Utterance, index: int) -> Instance:
        stream = open_stream(model, decoding, language, "en")
        audio = load_audio(utterance.wav, utterance.start, utterance.end)
        spent = 0.0
        for piece, last in pieces(audio, PIECE, f"{utterance.name} {decoding.label}"):
            started = time.process_time()
            stream.push(piece, last)
            spent += time.process_time() - started
        instance = instance_of(stream, utterance, index, 1000 * audio.size / SAMPLE_RATE)
        return replace(instance, elapsed=[], compute_ms=1000 * spent)

    return decode


def peer_decode(name: str, load: Callable[[], Peer]) -> Decode:
    """Decoding by a peer, which is loaded when it is needed."""
    loaded = cache(load)

    def decode(utterance: Utterance, index: int) -> Instance:
        peer = loaded()
        peer.begin()
        audio = load_audio(utterance.wav, utterance.start, utterance.end)
        written, heard = list[str](), list[float]()
        spent = 0.0
        for piece, last in pieces(audio, peer.piece, f"{utterance.name} {name}"):
            started = time.process_time()
            written.append(peer.hear(piece, last))
            spent += time.process_time() - started
            heard.append((heard[-1] if heard else 0.0) + 1000 * piece.size / SAMPLE_RATE)
        delays = [heard[number] for number in completed_by(written, "word")]
        return Instance(
            index=index,
            prediction="".join(written).strip(),
            delays=delays,
            elapsed=[],
            prediction_length=len(delays),
            reference=utterance.reference,
            source=[str(utterance.wav)],
            source_length=1000 * audio.size / SAMPLE_RATE,
            name=utterance.name,
            compute_ms=1000 * spent,
        )

    return decode


def pieces(audio: np.ndarray, size: int, name: str) -> Iterator[tuple[np.ndarray, bool]]:
    """Pieces of audio, and whether each is the last one."""
    starts = range(0, audio.size, size)
    for start in tqdm(starts, desc=name, leave=False, mininterval=5):
        yield audio[start : start + size], start == starts[-1]


@dataclass(frozen=True)
class Peers:
    """The options of the peers. whisper_streaming, simulstreaming: their checkouts; None: not run."""

    out: Path
    model: Path
    threads: int
    whisper_streaming: Path | None
    simulstreaming: Path | None
    beam: int
    frames: int
    chunk: float

    def systems(self, language: str) -> Iterator[System]:
        """Each peer, with the whole stream as one and with its voice activity controller."""
        for pauses in (False, True):
            suffix = f"_{1000 * self.chunk:g}ms" + ("-vac" if pauses else "")
            if checkout := self.whisper_streaming:
                name = f"whisper_streaming{suffix}"
                load = partial(whisper_streaming, checkout, self.model, language, self.chunk, pauses, self.threads)
                yield System(name, peer_decode(name, load))
            if checkout := self.simulstreaming:
                name = f"SimulStreaming{self.frames}-beam{self.beam}{suffix}"
                other = partial(self._simulstreaming, checkout, language, pauses)
                yield System(name, peer_decode(name, other))

    def _simulstreaming(self, checkout: Path, language: str, pauses: bool) -> Peer:
        converted = self.out / "whisper-huggingface"
        convert_whisper(self.model, converted)
        return simulstreaming(checkout, converted, language, self.chunk, pauses, self.threads, self.beam, self.frames)


# ---- logs and scores ----


def decode(folder: Path, recordings: Recordings, systems: list[System]) -> Iterator[tuple[str, list[Instance]]]:
    """Decode what is missing, recording by recording, each with every system. Yields each system's log."""
    logs: dict[str, list[Instance]] = {}
    for system in systems:
        path = folder / system.name / "instances.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        logs[system.name] = list(read_unfinished(path))
        path.write_text("".join(i.to_json() + "\n" for i in logs[system.name]), encoding="utf-8")
    for index, utterance in enumerate(tqdm(recordings.utterances, desc=folder.name)):
        for system in systems:
            log = logs[system.name]
            if all(instance.name != utterance.name for instance in log):
                log.append(system.decode(utterance, index))
                with (folder / system.name / "instances.log").open("a", encoding="utf-8") as file:
                    file.write(log[-1].to_json() + "\n")
    names = [utterance.name for utterance in recordings.utterances]
    for name, log in logs.items():
        yield name, sorted((i for i in log if i.name in names), key=lambda i: i.index)


def asked_of(talks: Path) -> Asked:
    """The sentences of talks."""
    return Asked(Sentences(talks / "talks.yaml", talks / "talks.en"))


def score(log: list[Instance], recordings: Recordings) -> dict[str, Any]:
    """The figures of one system on one set."""
    found: dict[str, Any] = {"RTF": real_time_factor(log)}
    if talks := recordings.talks:
        scores = score_log(log, "en", bootstrap=1000, asked=asked_of(talks))
        found = {name: scores[name] for name in SHOWN}
    for kind, (words, minutes) in words_in_gaps(log, recordings.gaps, recordings.settle).items():
        found[f"in {kind}"] = words / minutes
    return found


def save(path: Path, name: str, scores: dict[str, dict[str, Any]]) -> None:
    """Add the scores of a set to those of all runs with this folder, some of which may be under way."""
    try:
        summary = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError:
        raise SimulstError(
            f"{path}: broken; remove it, and run the same commands again: what is decoded stays."
        ) from None
    summary.setdefault(name, {}).update(scores)
    write_atomically(path, json.dumps(summary))


def table(scores: dict[str, dict[str, Any]]) -> str:
    """The figures as a table of Markdown."""
    names = list(next(iter(scores.values()))) if scores else []
    lines = [["system", *names], ["---", *["---:"] * len(names)]]
    lines += [[system, *map(_cell, map(row.get, names))] for system, row in scores.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: float | None) -> str:
    return (
        "-"
        if value is None
        else f"{value:.3g}"
        if abs(value) < 1
        else f"{value:.1f}"
        if value < 100
        else f"{value:.0f}"
    )


class Tested(NamedTuple):
    """What a paired test needs. logs: of each system. talks: the folder with talks.yaml and talks.en."""

    logs: dict[str, list[Instance]]
    talks: Path


def joined(parts: list[Tested], out: Path) -> Tested:
    """The same systems on the recordings of several languages, as one set. out: the folder for its sentences."""
    logs: dict[str, list[Instance]] = {}
    rows, lines = list[dict[str, Any]](), list[str]()
    for number, part in enumerate(parts):
        # Recordings of different languages may have the same name.
        for name, log in part.logs.items():
            logs.setdefault(name, []).extend(
                replace(i, source=[_numbered(i.source[0], number)], name=f"{number}-{i.name}") for i in log
            )
        for sentence in read_segmentation(part.talks / "talks.yaml", part.talks / "talks.en"):
            wav = _numbered(sentence.wav, number)
            rows.append({"wav": wav, "offset": sentence.offset, "duration": sentence.duration})
            lines.append(f"{sentence.text}\n")
    out.mkdir(parents=True, exist_ok=True)
    (out / "talks.yaml").write_text(yaml.safe_dump(rows), encoding="utf-8")
    (out / "talks.en").write_text("".join(lines), encoding="utf-8")
    return Tested(logs, out)


def _numbered(wav: str, number: int) -> str:
    return f"{number}-{Path(wav).name}"


def print_tests(logs: dict[str, list[Instance]], talks: Path) -> None:
    """Each peer against each of our systems, if there are sentences enough."""
    if len(read_segmentation(talks / "talks.yaml", talks / "talks.en")) < 2:
        return
    for peer, theirs in logs.items():
        for name, ours in logs.items() if re.match("whisper_streaming|SimulStreaming", peer) else ():
            if not re.match("whisper_streaming|SimulStreaming", name):
                test = compare(theirs, ours, "en", asked=asked_of(talks))
                said = f"BLEU {test['BLEU_difference']:+.1f} (p = {test['BLEU_p']:.3f}, paired randomisation)"
                print(f"{name} against {peer}: {said}")


if __name__ == "__main__":
    run_command(main)
