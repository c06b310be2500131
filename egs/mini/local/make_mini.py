"""Synthesise a speech translation corpus in MuST-C's layout.

`sentences` makes the text, `segments` cuts it into what is said between pauses, and eSpeak NG says it
(local/speech.py). The same seed gives the same bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import click
import soundfile

sys.path.append(str(Path(__file__).resolve().parents[3] / "local"))  # what recipes share

from segments import SENTENCES_PER_TALK, STYLES, Segment, Style, cut
from sentences import Sentence, make_splits
from simulst.commands.common import PATH, Several, force_option, jobs_option, run_command
from simulst.errors import SimulstError
from simulst.files.folder import locked, replaced
from speech import UNSEEN_VOICES, VOICES, Span, Talk, speak_talks

SIZES = {"train": 3000, "dev": 150, "tst-COMMON": 300, "tst-HE": 100}  # sentences
PAIRS = ("en-de", "en-ja")
STAMP = "mini.json"
VERSION = 1  # of the corpus; if it changes, the corpus is made again


def make_mini(
    root: Path,
    sizes: Mapping[str, int] = SIZES,
    pairs: Sequence[str] = PAIRS[:1],
    seed: int = 0,
    jobs: int = 1,
    style: Style = "sentences",
    force: bool = False,
) -> dict[str, dict[str, float]]:
    """Write `root/<pair>/data/<split>/{txt,wav}`. All pairs share the speech, through hard links if possible.

    A split that was made with the same options is kept. Each split appears whole or not at all.

    sizes: split → number of sentences.
    pairs: of PAIRS.
    jobs: processes; the result does not depend on them.
    style: what a segment is (`segments`).
    force: replace splits that were made with other options.

    Returns: split → talks, segments, hours.
    Raises SimulstError: a pair or the style is unknown; a size is below 1; eSpeak fails; a split was made with other
        options, or is not ours; another process is at work there.
    """
    if unknown := [pair for pair in pairs if pair not in PAIRS]:
        raise SimulstError(f"--pairs: '{unknown[0]}' is not offered; choose from {', '.join(PAIRS)}.")
    if style not in STYLES:
        raise SimulstError(f"--style: '{style}' is not offered; choose from {', '.join(STYLES)}.")
    stamp = {"version": VERSION, "seed": seed, "sizes": dict(sorted(sizes.items()))}
    stamp |= {} if style == "sentences" else {"style": style}
    counts = {}
    with locked(root):
        for split, talks in plan_talks(make_splits(sizes, seed), seed, style).items():
            _write_split(root, split, talks, pairs, jobs, stamp, force)
            counts[split] = _count(_place(root, pairs[0], split), talks)
    return counts


def _place(root: Path, pair: str, split: str) -> Path:
    return root / pair / "data" / split


def _count(place: Path, talks: Sequence[Talk[Segment]]) -> dict[str, float]:
    """The numbers of talks, segments and hours of a split."""
    seconds = sum(soundfile.info(str(wav)).duration for wav in (place / "wav").iterdir())
    return {"talks": len(talks), "segments": sum(len(t.segments) for t in talks), "hours": seconds / 3600}


def plan_talks(
    splits: Mapping[str, Sequence[Sentence]], seed: int, style: Style = "sentences"
) -> dict[str, list[Talk[Segment]]]:
    """Distribute the sentences of each split over talks, with the voices in turn."""
    plan: dict[str, list[Talk[Segment]]] = {}
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


def _write_split(
    root: Path,
    split: str,
    talks: Sequence[Talk[Segment]],
    pairs: Sequence[str],
    jobs: int,
    stamp: Mapping[str, object],
    force: bool,
) -> None:
    """Write a split for each pair that lacks it. The speech is made once, and linked for further pairs."""
    spoken = [place for place in (_place(root, pair, split) for pair in PAIRS) if _stamp(place) == stamp]
    for pair in pairs:
        place = _place(root, pair, split)
        if place in spoken:
            continue
        if place.is_dir() and not (place / STAMP).is_file():
            raise SimulstError(f"{place}: is there already, and this program has not made it; name another folder.")
        if place.is_dir() and not force:  # the stamp differs, or the place would be in `spoken`
            raise SimulstError(f"{place}: was made with other options; name another folder, or use --force.")
        with replaced(place) as part:
            (part / "txt").mkdir()
            if spoken:
                _copy_speech(spoken[0], part, split)
            else:
                _make_speech(part, split, talks, jobs)
            _write_texts(part, split, talks, pair)
            (part / STAMP).write_text(json.dumps(stamp), encoding="utf-8")
        spoken.append(place)


def _make_speech(part: Path, split: str, talks: Sequence[Talk[Segment]], jobs: int) -> None:
    """Write the talks, and the YAML with the spans of their segments."""
    (part / "wav").mkdir()
    spans = speak_talks(talks, part / "wav", jobs, f"mini {split}")
    _write_lines(part / "txt" / f"{split}.yaml", _yaml(talks, spans))


def _copy_speech(place: Path, part: Path, split: str) -> None:
    """Link or copy the speech of another pair's split."""
    shutil.copytree(place / "wav", part / "wav", copy_function=_link)
    shutil.copy(place / "txt" / f"{split}.yaml", part / "txt")


def _write_texts(part: Path, split: str, talks: Sequence[Talk[Segment]], pair: str) -> None:
    for language in pair.split("-"):
        lines = [getattr(segment, language) for talk in talks for segment in talk.segments]
        _write_lines(part / "txt" / f"{split}.{language}", lines)


def _yaml(talks: Sequence[Talk[Segment]], spans: Sequence[Sequence[Span]]) -> list[str]:
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


# ---- command ----

SENTENCES = click.IntRange(1, 1_000_000)


@click.command()
@click.option("--out", required=True, type=PATH, help="Folder for <pair>/data/<split>/{txt,wav}.")
@click.option(
    "--pairs",
    type=Several(str),
    default=PAIRS[0],
    show_default=True,
    help=f"Of {', '.join(PAIRS)}; several with spaces between.",
)
@click.option(
    "--style",
    type=click.Choice(STYLES),
    default=STYLES[0],
    show_default=True,
    help="A segment is a sentence, or one to three clauses with pauses and fillers.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Another seed, other sentences.")
@jobs_option
@force_option("Replace what was made with other options.")
def main(out: Path, pairs: tuple[str, ...], style: Style, seed: int, jobs: int, force: bool, **sizes: int) -> None:
    """Synthesise a speech translation corpus in MuST-C's layout, where it is missing."""
    print(size_table(make_mini(out, {split: sizes[_name(split)] for split in SIZES}, pairs, seed, jobs, style, force)))


def _name(split: str) -> str:
    return split.lower().replace("-", "_")


for split, size in SIZES.items():
    main = click.option(f"--{split.lower()}", default=size, show_default=True, type=SENTENCES, help="Sentences.")(main)

if __name__ == "__main__":
    run_command(main)
