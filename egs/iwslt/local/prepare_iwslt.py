"""Read a folder of IWSLT's simultaneous track as a data directory of whole recordings.

In, as the organisers lay it out:
    FOLDER/audio/*              recordings: WAV, MP4 or any other file with sound; also beside the texts
    FOLDER/audio-segments.yaml  sentences of all recordings as {wav, offset, duration}; or the only YAML there
    FOLDER/<language>.txt       transcript and references: a line for each sentence
Out, beside the tables of a data directory:
    talks.yaml, talks.<language>    the same sentences, for `simulst score --segmentation --references`
    wavs.txt                        the recordings, for simulstream's --wav-list-file
    wav/*.wav                       those that simulstream can't read as they are, as 16 kHz, mono, 16 bits
    silence/*.flac                  in place of recordings that are not there, if that is asked for
    context.tsv                     what is known of the recordings, by name, order and audio, if a context is given

Recordings stand in the order of the YAML everywhere. Their names are those of their files, without the endings.
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
import soundfile

from simulst.audio.name import SUFFIXES, recording_name
from simulst.audio.read import as_int16, digest_of_beginning, is_plain_wav, load_audio, write_wav
from simulst.audio.units import SAMPLE_RATE
from simulst.background import ALL, Background, read_backgrounds, table_of_backgrounds
from simulst.commands.common import PATH, force_option, named_files, run_command
from simulst.errors import SimulstError
from simulst.files.folder import digest, sha256_of, write_atomically, written_whole
from simulst.files.table import write_table
from simulst.languages import unit_of
from simulst.measure.segmentation import Sentence, read_lines, read_segmentation

logger = logging.getLogger(__name__)

LISTING = "audio-segments.yaml"
LANGUAGE = r"[a-z]{2,3}(?:[-_][A-Za-z]+)?"
AFTER = 0.1  # seconds by which a sentence may end after its recording: times and containers are rounded


@dataclass(frozen=True)
class Layout:
    """Where the parts are, if they are not where the organisers put them. audio: the folder of the recordings.

    segmentation: the YAML. texts: language → file. They replace what is found in the folder.
    silent: whether there are no recordings, and silence as long as their sentences stands for them.
    """

    audio: Path | None = None
    segmentation: Path | None = None
    texts: Mapping[str, Path] = field(default_factory=dict)
    silent: bool = False


@dataclass(frozen=True)
class Talks:
    """What is in a folder. sentences: language → its sentences.

    recordings: name → file, in the order of the YAML; None: there is none, and silence stands for it.
    """

    recordings: dict[str, Path | None]
    sentences: dict[str, list[Sentence]]


def prepare_iwslt(
    folder: Path, out: Path, layout: Layout | None = None, context: Path | None = None, force: bool = False
) -> Talks:
    """Write a data directory of the recordings of a folder. It appears whole or not at all.

    context: a table of `simulst.background`; or a list of files of text, one for each recording, in their order.
    force: write it again.

    Raises SimulstError: a file is missing; the texts, the YAML and the recordings do not belong together; a recording
        has no sound or can't be read; the context is of other recordings; what `written_whole` raises.
    """
    talks = read_folder(folder, layout or Layout())
    known = read_context(context, list(talks.recordings)) if context else {}
    made_of = {
        "recordings": {name: sha256_of(path)[:16] if path else "" for name, path in talks.recordings.items()},
        "sentences": {language: digest(map(str, found)) for language, found in talks.sentences.items()},
        "context": digest(f"{name} {one}" for name, one in known.items()) if known else "",
    }
    with written_whole(out, made_of, force) as part:
        if part is not None:
            _write(part, out, talks, known)
    return talks


# ---- reading ----


def read_folder(folder: Path, layout: Layout) -> Talks:
    """What is in a folder. Raises SimulstError: a file is missing, or they do not belong together."""
    if not folder.is_dir():
        raise SimulstError(f"{folder}: no such folder; give the one that holds audio/, {LISTING} and the texts.")
    listing = layout.segmentation or _listing(folder)
    texts = dict(layout.texts) or _texts(folder, listing)
    sentences = {language: read_segmentation(listing, file) for language, file in texts.items()}
    first = next(iter(sentences.values()))
    names = list(dict.fromkeys(sentence.recording for sentence in first))
    if odd := next((name for name in names if not re.fullmatch(r"[\w.+-]+", name)), None):
        raise SimulstError(
            f"{listing}: the recording '{odd}' may have letters, digits and . _ + - only in its name; rename it, there "
            "and its file."
        )
    if layout.silent:
        return Talks(dict.fromkeys(names), sentences)
    audio = layout.audio or (folder / "audio" if (folder / "audio").is_dir() else folder)
    return Talks({**_recordings(audio, listing, names, {Path(s.wav).name for s in first})}, sentences)


def _listing(folder: Path) -> Path:
    if (folder / LISTING).is_file():
        return folder / LISTING
    found = sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))
    if len(found) != 1:
        names = f"several other YAMLs ({', '.join(path.name for path in found)})" if found else "no other YAML"
        raise SimulstError(f"{folder}: has no {LISTING} and {names}; name the segmentation by --segmentation.")
    return found[0]


def _texts(folder: Path, listing: Path) -> dict[str, Path]:
    """<language>.txt; or, as MuST-C and OmniSTEval's users have them, files that differ in their ending .<language>."""
    found = {path.stem: path for path in sorted(folder.glob("*.txt")) if re.fullmatch(LANGUAGE, path.stem)}
    if not found:
        found = {path.suffix[1:]: path for path in sorted(folder.glob(f"{listing.stem}.*"))}
        found = {name: path for name, path in found.items() if re.fullmatch(r"[a-z]{2,3}", name) and name != "yml"}
    if not found:
        raise SimulstError(f"{folder}: has no texts such as en.txt and de.txt; name them by --text en=FILE.")
    return found


def _recordings(folder: Path, listing: Path, names: Sequence[str], listed: set[str]) -> dict[str, Path]:
    """Name → file. listed: the files' names in the YAML, of which one counts if several have the same name."""
    if not folder.is_dir():
        raise SimulstError(f"{folder}: no such folder; name the one that holds the recordings by --audio.")
    files: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in SUFFIXES and not path.name.startswith("."):
            files.setdefault(recording_name(path), []).append(path)
    found = {}
    for name in names:
        paths = files.pop(name, [])
        chosen = [path for path in paths if path.name in listed] if len(paths) > 1 else paths
        if not paths:
            raise SimulstError(f"{listing}: names the recording {name}, which {folder} has not; copy it there.")
        if len(chosen) != 1:
            both = " and ".join(path.name for path in paths)
            raise SimulstError(f"{folder}: has {both}; keep one of them, or name it in {listing.name}.")
        found[name] = chosen[0]
    if files:
        other = next(iter(files.values()))[0]
        raise SimulstError(
            f"{other}: {listing.name} does not name this recording; move it away, or add its sentences there and to "
            "the texts."
        )
    return found


def read_context(path: Path, names: Sequence[str]) -> dict[str, Background]:
    """What is known of each recording, in their order. names: of the recordings.

    Raises SimulstError: it is of other recordings, or can't be read.
    """
    lines = read_lines(path)
    if "recording" in (lines[0] if lines else "").split("\t"):
        known = read_backgrounds(path)
        if other := next((name for name in known if name not in (*names, ALL)), None):
            raise SimulstError(
                f"{path}: is of other recordings, such as '{other}'; name those of this folder, such as '{names[0]}'."
            )
        missing = [name for name in names if name not in known]
        if missing and ALL not in known:
            raise SimulstError(
                f"{path}: says nothing of '{missing[0]}'; add its line, or one of '{ALL}' for all others."
            )
        rest = {ALL: known[ALL]} if ALL in known else {}
        return {name: known.get(name) or known[ALL] for name in names} | rest
    files = [path.parent / line for line in lines if line]
    if len(files) != len(names):
        raise SimulstError(
            f"{path}: lists {len(files)} files for {len(names)} recordings; list one for each, in their order."
        )
    return {name: Background(text=_text_of(file)) for name, file in zip(names, files, strict=True)}


def _text_of(file: Path) -> str:
    if file.suffix.lower() == ".pdf":
        raise SimulstError(f"{file}: a PDF; write its text to a file first, for example by pdftotext, and list that.")
    return " ".join(" ".join(read_lines(file)).split())


# ---- writing ----


def _write(part: Path, out: Path, talks: Talks, known: Mapping[str, Background]) -> None:
    first = next(iter(talks.sentences.values()))
    ends = {s.recording: s for s in sorted(first, key=lambda s: s.offset + s.duration)}
    places, beginnings = {}, dict[str, str]()
    for name, path in talks.recordings.items():
        end = (last := ends[name]).offset + last.duration
        if path is None:
            places[name], beginnings[name] = f"silence/{name}.flac", ""
            (part / "silence").mkdir(exist_ok=True)
            silence = np.zeros(math.ceil((end + AFTER) * SAMPLE_RATE), np.int16)
            soundfile.write(part / places[name], silence, SAMPLE_RATE)
            continue
        samples = load_audio(path)
        seconds = samples.size / SAMPLE_RATE
        if end > seconds + AFTER:
            raise SimulstError(
                f"{path}: the sentence at {last.offset:g} s ends at {end:.2f} s, but the recording at {seconds:.2f} s; "
                "take the YAML of this recording."
            )
        if is_plain_wav(path):
            places[name] = os.path.relpath(path.resolve(), out.resolve())
        else:
            places[name] = f"wav/{name}.wav"
            (part / "wav").mkdir(exist_ok=True)
            write_wav(part / places[name], as_int16(samples))  # as pack and verify hear the file
            samples = load_audio(part / places[name])
        beginnings[name] = digest_of_beginning(samples)
    write_table(part / "wav.scp", places.items())
    write_table(part / "utt2spk", ((name, name) for name in places))
    if None not in talks.recordings.values():
        write_atomically(part / "wavs.txt", "".join(f"{place}\n" for place in places.values()))
    times = (f"duration: {s.duration}, offset: {s.offset}, wav: {s.recording}.wav" for s in first)
    write_atomically(part / "talks.yaml", "".join(f"- {{{line}}}\n" for line in times))
    for language, sentences in talks.sentences.items():
        write_atomically(part / f"talks.{language}", "".join(f"{s.text}\n" for s in sentences))
        space = "" if unit_of(language) == "char" else " "
        joined = ((n, space.join(s.text for s in sentences if s.recording == n)) for n in places)
        write_table(part / f"text.{language}", joined)
    if known:
        write_atomically(part / "context.tsv", table_of_backgrounds(known, _unlike(beginnings)))


def _unlike(beginnings: Mapping[str, str]) -> dict[str, str]:
    """The beginnings that only one recording has."""
    digests = list(beginnings.values())
    unlike = {name: one for name, one in beginnings.items() if one and digests.count(one) == 1}
    if alike := [name for name in beginnings if name not in unlike]:
        logger.warning(
            "%s: begin with the same sound, or with none, so their context can't go by the audio; let it go by order.",
            ", ".join(alike),
        )
    return unlike


@click.command()
@click.argument("folder", type=PATH)
@click.argument("out", type=PATH)
@click.option("--audio", type=PATH, help="Folder of the recordings [default: FOLDER/audio, or FOLDER].")
@click.option("--without-audio", "silent", is_flag=True, help="Write silence: for a recogniser that is a transcript.")
@click.option("--segmentation", type=PATH, help="YAML [default: FOLDER/audio-segments.yaml, or the only one there].")
@click.option(
    "--text", "texts", multiple=True, metavar="LANG=FILE", help="Text (repeatable) [default: FOLDER/LANG.txt]."
)
@click.option(
    "--context", type=PATH, help="What is known of the recordings: a table, or a list of text files in their order."
)
@force_option("Write the data directory again.")
def main(
    folder: Path,
    out: Path,
    audio: Path | None,
    segmentation: Path | None,
    texts: tuple[str, ...],
    silent: bool,
    context: Path | None,
    force: bool,
) -> None:
    """Write a data directory of recordings in IWSLT's layout.

    FOLDER, as the organisers of the simultaneous track give it, holds audio/ with WAV or MP4, audio-segments.yaml, and
    a text for each language, such as en.txt. OUT gets all languages, the sentences for scoring, and recordings that
    simulstream can read.
    """
    files = named_files(texts, "--text {value}: give LANG=FILE, each language once, such as de=references.txt.")
    talks = prepare_iwslt(folder, out, Layout(audio, segmentation, files, silent), context, force)
    sentences = len(next(iter(talks.sentences.values())))
    print(f"{out}: {len(talks.recordings)} recordings, {sentences} sentences in {', '.join(talks.sentences)}")


if __name__ == "__main__":
    run_command(main)
