"""`simulst translate`: recordings to text, as they are heard, and to files of subtitles."""

from __future__ import annotations

import dataclasses
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from simulst.commands.common import (
    PATH,
    Positive,
    context_options,
    leave_output,
    model_folder_option,
    target_lang_option,
)
from simulst.errors import SimulstError

if TYPE_CHECKING:
    import numpy as np

    from simulst.streams import OpenStream
    from simulst.subtitles import Layout


@click.command()
@click.argument("audio", nargs=-1, required=True, type=PATH)
@model_folder_option
@click.option("--source-lang", required=True, help="Source language (speech), such as es; auto: it is found.")
@target_lang_option
@click.option(
    "--decoding", type=click.Path(), help="Decoding configuration (YAML) [default: that of conf/decode/live.yaml]."
)
@click.option("--realtime", is_flag=True, help="Feed the audio in real time.")
@click.option("--srt", type=PATH, help="Subtitles: a file or, for a folder or several recordings, a folder.")
@click.option("--vtt", type=PATH, help="The same as WebVTT.")
@click.option("--json", type=PATH, help="The same as JSON, with the time of each word.")
@click.option(
    "--both", is_flag=True, help="Put the source text under the translation, if the model writes one (cascades)."
)
@click.option(
    "--line-length",
    default=42,
    type=click.IntRange(2),
    help="Columns of a line of subtitles, of which there are two; a Chinese character takes two columns.",
)
@click.option(
    "--reading-speed",
    default=17.0,
    type=Positive(),
    help="Columns a second; a cue stays so long if the next one leaves it time.",
)
@click.option(
    "--cue-seconds",
    nargs=2,
    default=(1.0, 7.0),
    type=Positive(),
    help="Shortest and longest time for which a cue is shown.",
)
@context_options
def translate(
    audio: tuple[Path, ...],
    model: str,
    source_lang: str,
    target_lang: str,
    decoding: str | None,
    realtime: bool,
    line_length: int,
    reading_speed: float,
    cue_seconds: tuple[float, float],
    both: bool,
    model_options: tuple[str, ...],
    unit: str | None,
    context: str | None,
    **places: Path | None,
) -> None:
    """Translate recordings of any length.

    AUDIO is a file (WAV, FLAC, OGG, MP3, M4A, ...), a film (MP4, MKV, WebM, ...), or a folder of them. Words are
    printed when they are committed. Each line begins with the seconds of audio read so far.

    AUDIO may be -: sound that comes by standard input now, as raw samples: 16 kHz, mono, integers of 16 bits (s16le).
    Its end, or Ctrl-C, brings the last words.
    """
    from simulst.audio.name import plain_name, recording_name, recordings_in
    from simulst.audio.read import check_there, load_audio
    from simulst.background import NOTHING, known_of, read_backgrounds
    from simulst.config import LIVE, load_decoding
    from simulst.models.registry import check_languages, load_model, parse_options
    from simulst.policy.late import Wait
    from simulst.streams import open_stream
    from simulst.subtitles import Layout

    if both and not any(places.values()):
        raise click.UsageError("--both: name a file, by --srt, --vtt or --json.")
    if cue_seconds[0] > cue_seconds[1]:
        raise click.UsageError("--cue-seconds: the shortest time comes first, then the longest.")
    live = Path("-") in audio
    if live and (len(audio) > 1 or sys.stdin.isatty()):
        raise click.UsageError(
            "-: sound comes by a pipe, and alone, as in: ffmpeg ... -f s16le - | simulst translate -"
        )
    layout = Layout(line_length, reading_speed, *cue_seconds)
    several = len(audio) > 1 or audio[0].is_dir()
    audio = tuple(file for place in audio for file in (recordings_in(place) if place.is_dir() else [place]))
    files = {file: _subtitle_files(file, audio, several, places) for file in audio}
    if decoding is not None:
        configuration = load_decoding(decoding)
    else:  # a file can wait
        configuration = LIVE if realtime or live else dataclasses.replace(LIVE, late=Wait())
    table = read_backgrounds(context) if context else None
    known = {}
    for file in audio:
        known[file] = known_of(table, [recording_name(file)]) if table is not None else NOTHING
        if known[file] is None:
            raise SimulstError(f"{context}: has no line for the recording '{recording_name(file)}'; add it.")
    options = parse_options(model_options)
    check_languages(model, options, source_lang, target_lang)
    failed: list[str] = []

    def fail(file: Path, error: SimulstError) -> None:
        if len(audio) == 1:
            raise error
        failed.append(plain_name(str(file)))
        click.echo(str(error) if str(error).startswith(str(file)) else f"{failed[-1]}: {error}", err=True)

    for file in audio:
        try:
            if not live:
                check_there(file)
        except SimulstError as error:
            fail(file, error)
    there = [file for file in audio if plain_name(str(file)) not in failed]
    loaded = load_model(model, **options)
    for file in there:
        name = plain_name(str(file))
        if several:
            _print(f"{name}:", bool(files[file]))
        try:
            samples = load_audio(file) if not live else None
            background = known[file] or NOTHING
            timed = bool(files[file])
            languages, names = (source_lang, target_lang), (recording_name(file),)
            stream = open_stream(
                loaded, configuration, *languages, unit or "", background=background, timed=timed, names=names
            )
            pieces = _pieces(samples, realtime) if samples is not None else _from_pipe(sys.stdin.buffer)
            _listen(stream, pieces, None if samples is None else len(samples), name, timed)
            about: dict[str, Any] = {"audio": name, "source_lang": source_lang, "target_lang": target_lang}
            _write(
                stream, files[file], layout, both, about | ({"languages": stream.languages} if stream.languages else {})
            )
        except SimulstError as error:
            fail(file, error)
    if failed:
        raise SimulstError(f"{len(failed)} of {len(audio)} recordings failed: {', '.join(failed)}; see above.")


def _subtitle_files(
    file: Path, audio: tuple[Path, ...], several: bool, places: dict[str, Path | None]
) -> dict[str, Path]:
    """Kind → the file to write for a recording. Folders are made here, before anything is decoded.

    Raises SimulstError: two recordings, or a recording and its subtitles, are one file.
    """
    from simulst.audio.name import apart, recording_name

    found = {}
    for kind, place in places.items():
        if place is None:
            continue
        if several:
            place.mkdir(parents=True, exist_ok=True)
        elif not place.is_dir():
            place.parent.mkdir(parents=True, exist_ok=True)
        found[kind] = place / f"{recording_name(file)}.{kind}" if place.is_dir() else place
        same = [other for other in audio if recording_name(other) == recording_name(file)]
        if len(same) > 1:
            both = " and ".join(apart(*same[:2]))
            raise SimulstError(f"--{kind}: {both} would have one file; translate one after the other.")
        if any(found[kind].resolve() == other.resolve() for other in audio):
            raise SimulstError(f"--{kind}: {found[kind]} is a recording; name the file of subtitles.")
    if len(set(found.values())) < len(found):
        raise SimulstError("--srt, --vtt and --json name the same file; give each one of its own.")
    return found


def _pieces(samples: np.ndarray, realtime: bool) -> Iterator[tuple[np.ndarray, bool]]:
    """Pieces of a recording, and whether each is the last one. realtime: each comes when it has been spoken."""
    from simulst.audio.units import SAMPLE_RATE

    piece, started = SAMPLE_RATE // 10, time.monotonic()
    for start in range(0, max(len(samples), 1), piece):
        end = min(start + piece, len(samples))
        if realtime:
            time.sleep(max(0.0, end / SAMPLE_RATE - (time.monotonic() - started)))
        yield samples[start:end], end == len(samples)


def _from_pipe(pipe: BinaryIO) -> Iterator[tuple[np.ndarray, bool]]:
    """Pieces of raw samples, as they come; each waits for the next one, as the last one has to be known.

    Raises SimulstError: nothing comes, half a sample, or what is no such audio.
    """
    import numpy as np

    from simulst.audio.units import SAMPLE_RATE
    from simulst.serve.sent import check_sent

    def as_floats(data: bytes) -> np.ndarray:
        return np.frombuffer(data, "<i2").astype(np.float32) / 2**15

    def once(*_: Any) -> None:  # who sends the sound has been told, too
        click.echo("the sound ends; the last words come. Once more: they don't.", err=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    held, recent, count = b"", b"", 0
    before = signal.signal(signal.SIGINT, once)
    try:
        while data := pipe.read(2 * SAMPLE_RATE // 50):
            if held:
                yield as_floats(held), False
            held, recent, count = data, (recent + data)[-(1 << 16) :], count + 1
            if count % 5 == 1 or len(held) % 2:
                check_sent(recent, SAMPLE_RATE, whole=len(held) % 2 > 0)
        if not held:
            raise SimulstError("no sound came by standard input; see what its sender says.")
        yield as_floats(held), True
    finally:
        signal.signal(signal.SIGINT, before)


def _listen(
    stream: OpenStream, pieces: Iterable[tuple[np.ndarray, bool]], samples: int | None, file: str, goes_on: bool
) -> None:
    """Decode a recording and print its words. A terminal also shows how far it is.

    samples: how many will come; None: nobody knows. goes_on: without printing, if nobody reads the words any more;
    else that ends the recording.
    """
    from tqdm import tqdm

    from simulst.audio.units import SAMPLE_RATE
    from simulst.streams import skipped_steps

    form = "{desc}: {percentage:3.0f}% |{bar}| {n:.0f} of {total:.0f} s [{elapsed}<{remaining}]"
    seconds, name, hidden = (samples or 0) / SAMPLE_RATE, Path(file).name, None if samples is not None else True
    with tqdm(total=seconds, desc=name, disable=hidden, bar_format=form, leave=False) as bar:
        for piece, last in pieces:
            written, found = len(stream.emissions), len(stream.languages)
            try:
                stream.push(piece, finished=last)
            finally:  # also the last words of a stream that an error ends
                if words := stream.emissions[written:]:
                    text = "".join(word.text for word in words).strip()
                    _print(f"{words[0].delay_ms / 1000:7.2f} s  {text}", goes_on)
            for begin_ms, language in stream.languages[found:]:
                tqdm.write(f"{file}: from {begin_ms / 1000:.1f} s on it sounds like '{language}'.", file=sys.stderr)
            bar.update(len(piece) / SAMPLE_RATE)
    if not stream.emissions:
        click.echo(f"{file}: no words were written.", err=True)
    if slow := skipped_steps(stream):
        click.echo(slow, err=True)


def _print(line: str, goes_on: bool) -> None:
    from tqdm import tqdm

    try:
        tqdm.write(line, file=sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        if not goes_on:
            raise
        leave_output()
        click.echo("nobody reads the words any more; the subtitles are written all the same.", err=True)


def _write(stream: OpenStream, files: dict[str, Path], layout: Layout, both: bool, about: dict[str, Any]) -> None:
    """Write subtitles of a stream that has ended, and say where their times are from if the model can't tell them."""
    from simulst.files.folder import write_atomically
    from simulst.subtitles import as_json, as_srt, as_vtt, cues_of, spoken_words, with_source, written_words

    if not files:
        return
    spoken = stream.spoken_ms
    if spoken is None:
        words = written_words(stream.emissions, layout.reading_speed)
        click.echo("the model can't tell when words were spoken; cues begin when words were written.", err=True)
    else:
        words = spoken_words(stream.emissions, spoken)
    cues = cues_of(words, layout)
    if both and stream.source is None:
        click.echo(
            "--both: the model writes no source text, as a cascade does; the files have the translation.", err=True
        )
    elif both:
        cues = with_source(cues, stream.source or (), layout)
        about["source"] = [dataclasses.asdict(word) for word in stream.source or ()]
    about |= {"times": "written" if spoken is None else "spoken"}
    texts = {"srt": as_srt(cues), "vtt": as_vtt(cues), "json": as_json(cues, words, about)}
    for kind, path in files.items():
        write_atomically(path, texts[kind])
