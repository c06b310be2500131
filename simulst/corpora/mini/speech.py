"""Stage 1 of `egs/mini`: a synthetic speech translation corpus in MuST-C's layout.

`sentences` makes the text, `segments` cuts them into what is said between pauses, and eSpeak NG (from the PyPI
package espeakng-loader) speaks the English. Voices, rates and pitches vary, and each talk has its own room and noise.
The same seed gives the same bytes.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random

import numpy as np
import soundfile
import soxr
from scipy.signal import lfilter, oaconvolve
from tqdm import tqdm

from simulst.cluster import interrupts_blocked
from simulst.corpora.mini.segments import PAUSE, SENTENCES_PER_TALK, STYLES, Segment, Style, cut
from simulst.corpora.mini.sentences import Sentence, make_splits
from simulst.errors import SimulstError
from simulst.folder import replaced
from simulst.units import SAMPLE_RATE

SIZES = {"train": 3000, "dev": 150, "tst-COMMON": 300, "tst-HE": 100}  # sentences
PAIRS = ("en-de", "en-ja")
# "en-gb" has no variants. The voices of tst-HE occur in no other split.
# fmt: off
VOICES = (
    "en-us+f3", "en+m7", "en-gb-x-rp+m4", "en-us+Andy", "en-gb-scotland+f2", "en-us-nyc+m3",
    "en-029+f4", "en-us+Alicia", "en-gb-x-gbclan+m1", "en+Annie", "en-us+m8", "en-gb-x-rp+linda",
    "en-us+Mike", "en-gb-x-gbcwmd+f1", "en+Lee", "en-us+steph",
)
# fmt: on
UNSEEN_VOICES = ("en-us+f5", "en-gb-x-rp+m6", "en+Gene", "en-us+belinda")
RATE = (130, 175)  # words per minute
PITCH = (35, 65)  # eSpeak's scale, 0 to 100
MARGIN = 0.05  # seconds of silence inside a segment, at either end
REVERBERATION = (0.08, 0.35)  # seconds until the echo has fallen by 60 dB
DIRECT_TO_ECHO = (4.0, 14.0)  # dB
SIGNAL_TO_NOISE = (15.0, 35.0)  # dB
STAMP = "mini.json"
VERSION = 1  # of the corpus; if it changes, the corpus is made again


@dataclass(frozen=True)
class Talk:
    """Some sentences of one speaker, cut into segments, in one WAV file."""

    name: str
    speaker: str
    voice: str
    seed: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Span:
    """Where a segment lies in its talk, in seconds."""

    offset: float
    duration: float


def make_mini(
    root: Path,
    sizes: Mapping[str, int] = SIZES,
    pairs: Sequence[str] = PAIRS[:1],
    seed: int = 0,
    jobs: int = 1,
    style: Style = "sentences",
) -> dict[str, dict[str, float]]:
    """Write `root/<pair>/data/<split>/{txt,wav}`. All pairs share the speech, through hard links if possible.

    A split that was made with the same options is kept. Each split appears whole or not at all.

    sizes: split → number of sentences.
    pairs: of PAIRS.
    jobs: processes; the result does not depend on them.
    style: what a segment is (`segments`).

    Returns: split → talks, segments, hours.
    Raises SimulstError: a pair or the style is unknown; a size is below 1; eSpeak fails.
    """
    if unknown := [pair for pair in pairs if pair not in PAIRS]:
        raise SimulstError(f"--pairs: '{unknown[0]}' is not offered; choose from {', '.join(PAIRS)}.")
    if style not in STYLES:
        raise SimulstError(f"--style: '{style}' is not offered; choose from {', '.join(STYLES)}.")
    stamp = {"version": VERSION, "seed": seed, "sizes": dict(sorted(sizes.items()))}
    stamp |= {} if style == "sentences" else {"style": style}
    counts = {}
    for split, talks in plan_talks(make_splits(sizes, seed), seed, style).items():
        _write_split(root, split, talks, pairs, jobs, stamp)
        counts[split] = _count(_place(root, pairs[0], split), talks)
    return counts


def _place(root: Path, pair: str, split: str) -> Path:
    return root / pair / "data" / split


def _count(place: Path, talks: Sequence[Talk]) -> dict[str, float]:
    """The numbers of talks, segments and hours of a split."""
    seconds = sum(soundfile.info(str(wav)).duration for wav in (place / "wav").iterdir())
    return {"talks": len(talks), "segments": sum(len(t.segments) for t in talks), "hours": seconds / 3600}


def plan_talks(
    splits: Mapping[str, Sequence[Sentence]], seed: int, style: Style = "sentences"
) -> dict[str, list[Talk]]:
    """Distribute the sentences of each split over talks, with the voices in turn."""
    plan: dict[str, list[Talk]] = {}
    number = 0
    for split, sentences in splits.items():
        rng = Random(f"{seed} {split} talks")
        voices = UNSEEN_VOICES if split == "tst-HE" else VOICES
        first = len(VOICES) if split == "tst-HE" else 0
        rest, plan[split] = list(sentences), []
        while rest:
            turn = len(plan[split]) % len(voices)
            n = rng.randint(*SENTENCES_PER_TALK[style])
            number += 1
            talk_seed = f"{seed} {split} {len(plan[split])}"
            segments = tuple(cut(rest[:n], style, rng))
            plan[split].append(Talk(f"ted_{number}", f"spk.{first + turn + 1}", voices[turn], talk_seed, segments))
            rest = rest[n:]
    return plan


# ---- speech ----


def speak_talk(talk: Talk, path: Path) -> list[Span]:
    """Synthesise a talk as a WAV file (16 kHz, 16 bits, mono). Returns the spans of its segments.

    Raises SimulstError: eSpeak fails.
    """
    rng = np.random.default_rng(list(talk.seed.encode()))
    rate, pitch = int(rng.integers(*RATE)), int(rng.integers(*PITCH))
    pieces, spans, at = [], [], 0
    with espeak() as say:
        for segment in talk.segments:
            start = None
            for breath in segment.said:
                # Rate and pitch vary a little from breath to breath.
                speech = say(breath.text, talk.voice, rate + int(rng.integers(-8, 9)), pitch + int(rng.integers(-4, 5)))
                silence = np.zeros(round(rng.uniform(*breath.pause) * SAMPLE_RATE), np.float32)
                pieces += [silence, speech]
                if start is None:
                    start = round((at + len(silence)) / SAMPLE_RATE - MARGIN, 2)
                at += len(silence) + len(speech)
            assert start is not None  # a segment has words
            spans.append(Span(start, round(at / SAMPLE_RATE + MARGIN - start, 2)))
    pieces.append(np.zeros(round(PAUSE[0] * SAMPLE_RATE), np.float32))
    samples = in_a_room(np.concatenate(pieces), rng)
    soundfile.write(path, samples, SAMPLE_RATE, subtype="PCM_16", format="WAV")
    return spans


def in_a_room(speech: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add echo and coloured noise, both light; same shape (n,), float32, peak 0.5 to 0.9."""
    seconds = rng.uniform(*REVERBERATION)
    time = np.arange(round(seconds * SAMPLE_RATE), dtype=np.float32) / SAMPLE_RATE
    echo = rng.standard_normal(len(time), dtype=np.float32) * np.exp(-6.9 * time / seconds)
    echo[: SAMPLE_RATE // 500] = 0  # nothing comes back within 2 ms
    echo *= 10 ** (-rng.uniform(*DIRECT_TO_ECHO) / 20) / np.sqrt(np.sum(np.square(echo)))
    echo[0] = 1
    wet = oaconvolve(speech, echo)[: len(speech)]
    noise = lfilter([1], [1, -rng.uniform(0.2, 0.95)], rng.standard_normal(len(wet)))
    level = np.sqrt(np.mean(np.square(wet[speech != 0])))
    noise *= level / np.std(noise) * 10 ** (-rng.uniform(*SIGNAL_TO_NOISE) / 20)
    noisy = wet + noise
    return (noisy * (rng.uniform(0.5, 0.9) / np.abs(noisy).max())).astype(np.float32)


def _speak_all(talks: Sequence[Talk], folder: Path, jobs: int, split: str) -> list[list[Span]]:
    paths = [folder / f"{talk.name}.wav" for talk in talks]
    if jobs <= 1:
        return list(tqdm(map(speak_talk, talks, paths), f"mini {split}", len(talks), unit="talk", disable=None))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        with interrupts_blocked():
            spoken = pool.map(speak_talk, talks, paths)
        return list(tqdm(spoken, f"mini {split}", len(talks), unit="talk", disable=None))


# ---- eSpeak NG ----

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
_SYNCHRONOUS, _DONT_EXIT, _UTF8, _RATE, _PITCH = 2, 0x8000, 1, 1, 3


@contextmanager
def espeak() -> Iterator[Say]:
    """A fresh instance of eSpeak NG.

    Its output depends on what it said before (noise, voice flutter), and nothing resets that. So each call loads a copy
    of the library, which the linker treats as a separate library.
    Raises SimulstError: the package is missing; eSpeak does not start.
    """
    from _ctypes import dlclose

    try:
        import espeakng_loader
    except ImportError:
        raise SimulstError(
            "espeakng_loader: not installed; run tools/install.sh, or pip install espeakng-loader."
        ) from None
    with tempfile.TemporaryDirectory(prefix="simulst-") as folder:
        library = ctypes.CDLL(shutil.copy(espeakng_loader.get_library_path(), folder))
        try:
            yield Say(library, str(espeakng_loader.get_data_path()))
            library.espeak_Terminate()
        finally:
            dlclose(library._handle)


class Say:
    """Converts text to speech: `say(text, voice, rate, pitch)` returns samples, shape (n,), float32, 16 kHz."""

    def __init__(self, library: ctypes.CDLL, data: str) -> None:
        self._library = library
        self._rate = library.espeak_Initialize(_SYNCHRONOUS, 0, data.encode(), _DONT_EXIT)
        if self._rate <= 0:
            raise SimulstError(f"{data}: eSpeak NG does not start with it; install espeakng-loader again.")
        self._heard: list[bytes] = []
        self._callback = _CALLBACK(self._hear)  # kept, as the library calls it
        library.espeak_SetSynthCallback(self._callback)
        library.espeak_ng_SetRandSeed(ctypes.c_long(1))

    def _hear(self, samples: ctypes._Pointer[ctypes.c_short], n: int, events: int) -> int:
        if samples and n:
            self._heard.append(ctypes.string_at(samples, 2 * n))
        return 0

    def __call__(self, text: str, voice: str, rate: int, pitch: int) -> np.ndarray:
        library = self._library
        self._heard.clear()
        if library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise SimulstError(f"eSpeak NG: has no voice '{voice}'; choose another in simulst/corpora/mini/speech.py.")
        library.espeak_SetParameter(_RATE, rate, 0)
        library.espeak_SetParameter(_PITCH, pitch, 0)
        data = text.encode()
        failed = library.espeak_Synth(data, ctypes.c_size_t(len(data) + 1), 0, 0, 0, _UTF8, None, None)
        samples = np.frombuffer(b"".join(self._heard), np.int16).astype(np.float32) / 32768
        if failed or not samples.any():
            raise SimulstError(f"eSpeak NG: says nothing for '{text}' with voice '{voice}'; change either.")
        spoken = np.flatnonzero(np.abs(samples) > 0.002)
        return soxr.resample(samples[spoken[0] : spoken[-1] + 1], self._rate, SAMPLE_RATE)


# ---- files ----


def _write_split(
    root: Path, split: str, talks: Sequence[Talk], pairs: Sequence[str], jobs: int, stamp: Mapping[str, object]
) -> None:
    """Write a split for each pair that lacks it. The speech is made once, and linked for further pairs."""
    spoken = [place for place in (_place(root, pair, split) for pair in PAIRS) if _stamp(place) == stamp]
    for pair in pairs:
        place = _place(root, pair, split)
        if place in spoken:
            continue
        with replaced(place) as part:
            (part / "txt").mkdir()
            if spoken:
                _copy_speech(spoken[0], part, split)
            else:
                _make_speech(part, split, talks, jobs)
            _write_texts(part, split, talks, pair)
            (part / STAMP).write_text(json.dumps(stamp), encoding="utf-8")
        spoken.append(place)


def _make_speech(part: Path, split: str, talks: Sequence[Talk], jobs: int) -> None:
    """Write the talks, and the YAML with the spans of their segments."""
    (part / "wav").mkdir()
    spans = _speak_all(talks, part / "wav", jobs, split)
    _write_lines(part / "txt" / f"{split}.yaml", _yaml(talks, spans))


def _copy_speech(place: Path, part: Path, split: str) -> None:
    """Link or copy the speech of another pair's split."""
    shutil.copytree(place / "wav", part / "wav", copy_function=_link)
    shutil.copy(place / "txt" / f"{split}.yaml", part / "txt")


def _write_texts(part: Path, split: str, talks: Sequence[Talk], pair: str) -> None:
    for language in pair.split("-"):
        lines = [getattr(segment, language) for talk in talks for segment in talk.segments]
        _write_lines(part / "txt" / f"{split}.{language}", lines)


def _yaml(talks: Sequence[Talk], spans: Sequence[Sequence[Span]]) -> list[str]:
    """One line per segment, as MuST-C has it: rW is the number of words, uW that of unknown words."""
    return [
        f"- {{duration: {span.duration:.2f}, offset: {span.offset:.2f}, rW: {len(segment.en.split())}, uW: 0, "
        f"speaker_id: {talk.speaker}, wav: {talk.name}.wav}}"
        for talk, places in zip(talks, spans, strict=True)
        for segment, span in zip(talk.segments, places, strict=True)
    ]


def _stamp(place: Path) -> object:
    try:
        return json.loads((place / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy(source, target)


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def size_table(counts: Mapping[str, Mapping[str, float]]) -> str:
    """The corpus as text: one line per split."""
    lines = [f"{'split':12}{'talks':>8}{'segments':>11}{'hours':>8}"]
    lines += [f"{split:12}{c['talks']:8}{c['segments']:11}{c['hours']:8.2f}" for split, c in counts.items()]
    return "\n".join(lines)
