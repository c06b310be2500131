"""Add synthetic readings of each line to training data, in many voices of eSpeak NG."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import click

sys.path.append(str(Path(__file__).resolve().parents[3] / "local"))  # what recipes share

from simulst.commands.common import PATH, force_option, jobs_option, run_command
from simulst.data.datadir import read_data_dir, read_table, text_file, write_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import written_whole
from simulst.files.lock import digest
from speech import PAUSE, VOICES, Breath, Talk, speak_talks

TABLES = ("wav.scp", "segments", "utt2spk")
LINES_PER_TALK = 40
VERSION = 1  # of the readings; if it changes, they are made again


@dataclass(frozen=True)
class Line:
    """An utterance of the data directory, and how it is read."""

    name: str
    said: tuple[Breath, ...]


def add_readings(
    data: Path, out: Path, source: str, readings: int, seed: str = "", jobs: int = 1, force: bool = False
) -> None:
    """Write `data` as another data directory that also has `readings` synthetic readings of each utterance.

    A reading has the texts of its utterance, and `reading-<voice>` as its speaker. `out` appears whole or
    not at all, and is kept if it was made of the same.

    source: language that is spoken; only English has voices.
    seed: of the voices, rates, pitches, rooms and noises; another one for each pair gives more of them.
    jobs: processes; the result does not depend on them.
    force: make the directory again.

    Raises SimulstError: another language than English; an utterance without a letter in its source text; eSpeak fails;
        what `read_data_dir` and `written_whole` raise.
    """
    if source != "en":
        raise SimulstError(f"--source-lang {source}: the readings' voices speak English (en) only.")
    read_data_dir(data, source)  # checks that the tables hold the same utterances
    spoken = text_file(data, source)
    texts = [path.name for path in data.glob("text.*")]
    tables = {name: read_table(data / name, allow_empty=name in texts) for name in (*TABLES, *texts)}
    tables["wav.scp"] = {key: str((data / value).resolve()) for key, value in tables["wav.scp"].items()}
    made_of = {"version": VERSION, "readings": readings, "seed": seed}
    made_of["data"] = digest(f"{name} {table}" for name, table in sorted(tables.items()))
    lines = [Line(name, (Breath(PAUSE, text),)) for name, text in tables[spoken.name].items()]
    if silent := [line.name for line in lines if not any(map(str.isalpha, line.said[0].text))]:
        raise SimulstError(f"{spoken}: '{silent[0]}' has no letters, so nobody can read it; drop the utterance.")
    with written_whole(out, made_of, force) as part:
        if part is None:
            return
        (part / "wav").mkdir()
        talks = plan_readings(lines, readings, seed)
        spans = speak_talks(talks, part / "wav", jobs, f"{out.parent.name} readings")
        for talk, places in zip(talks, spans, strict=True):
            tables["wav.scp"][talk.name] = f"wav/{talk.name}.wav"
            for line, span in zip(talk.segments, places, strict=True):
                utterance = f"{talk.name}-{line.name}"
                tables["segments"][utterance] = f"{talk.name} {span.offset:.2f} {span.offset + span.duration:.2f}"
                tables["utt2spk"][utterance] = talk.speaker
                for name in texts:
                    tables[name][utterance] = tables[name][line.name]
        write_data_dir(part, tables)
        seconds = sum(span.duration for places in spans for span in places)
        print(f"{out}: {len(lines)} utterances and {readings * len(lines)} readings of {seconds / 3600:.1f} hours")


def plan_readings(lines: Sequence[Line], readings: int, seed: str = "") -> list[Talk[Line]]:
    """Distribute the lines over talks, in another order and with the voices in turn for each reading."""
    talks = []
    for number in range(1, readings + 1):
        rng = Random(f"{seed} {number}")
        order, voices = rng.sample(lines, len(lines)), rng.sample(VOICES, len(VOICES))
        for start in range(0, len(order), LINES_PER_TALK):
            turn = start // LINES_PER_TALK
            voice = VOICES.index(voices[turn % len(voices)])
            speaker = f"reading-{voice:02d}"
            segments = tuple(order[start : start + LINES_PER_TALK])
            name = f"{speaker}-{number}-{turn:03d}"
            talks.append(Talk(name, speaker, VOICES[voice], f"{seed} {number} {turn}", segments))
    return talks


# ---- command ----


@click.command()
@click.option("--data", required=True, type=PATH, help="Data directory with segments.")
@click.option("--out", required=True, type=PATH, help="Data directory to write.")
@click.option("--source-lang", default="en", show_default=True, help="Language that is spoken.")
@click.option("--readings", default=1, show_default=True, type=click.IntRange(1, 100), help="Of each line.")
@click.option("--seed", default="", help="Another seed, other voices.")
@jobs_option
@force_option("Write the data directory again.")
def main(data: Path, out: Path, source_lang: str, readings: int, seed: str, jobs: int, force: bool) -> None:
    """Add synthetic readings of each line to training data, in many voices of eSpeak NG."""
    add_readings(data, out, source_lang, readings, seed, jobs, force)


if __name__ == "__main__":
    run_command(main)
