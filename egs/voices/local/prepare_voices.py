"""Fetch two games, and write their acted speech and texts as a corpus in MuST-C's layout.

Out: OUT/recordings/*.wav, OUT/<pair>/data/<split>/{txt/<split>.yaml,<split>.<language>...,wav/}, OUT/dropped.log,
OUT/accents.<language>.tsv (words that lack accents), OUT/counts.tsv
"""

from __future__ import annotations

import csv
import os
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

sys.path.append(str(Path(__file__).resolve().parents[3] / "local"))  # what recipes share

import drascula
import recordings
import steel_sky
from choose import Dropped, format_dropped, usable_pairs
from lines import Line
from simulst.commands.common import PATH, force_option, run_command
from simulst.errors import SimulstError
from simulst.files.folder import digest, written_whole
from sources import CHECKSUMS, fetch_games, fetch_words
from splits import ALIKE, DEV, SPLITS, TST, split
from truecase import Truecaser, shared_words, without_accents

PAIRS = {
    steel_sky.GAME: tuple(("en", target) for target in ("de", "es", "fr", "it", "pt", "sv")),
    drascula.GAME: (
        *(("en", target) for target in ("de", "es", "fr", "it", "ru")),
        *(("es", target) for target in ("en", "de", "fr", "it", "ru")),
    ),
}
SIZES = {steel_sky.GAME: {DEV: 180, TST: 400}, drascula.GAME: {DEV: 120, TST: 200}}
OTHERS = (
    *("sky-anita", "sky-talk0045", "sky-talk0040"),  # a woman, a judge, a boy
    "drascula-vb",
)
"""Speakers who are not in the training split."""


UNLIKE = Path(__file__).with_name("unlike.tsv")
"""Lines whose speech is not their text, as Whisper base heard it on one machine: name and spoken language."""


def all_pairs() -> list[str]:
    """All language pairs, such as "en-de", sorted."""
    return sorted({f"{source}-{target}" for pairs in PAIRS.values() for source, target in pairs})


def prepare_voices(downloads: Path, out: Path, force: bool = False) -> None:
    """Fetch missing packages and write the corpus, unless it is there.

    downloads: folder of the packages.
    force: write the corpus again.

    Raises SimulstError: there is no network; a package is damaged or of another version; what `written_whole` raises.
    """
    games = fetch_games(downloads)
    words = fetch_words(downloads)
    made_of: dict[str, object] = {
        "games": digest(CHECKSUMS.values()),
        "word lists": digest(f"{la} {word}" for la in sorted(words) for word in sorted(words[la])),
        "near-duplicates from": ALIKE,
        "sizes": SIZES,
        "other speakers": list(OTHERS),
        "unlike lines": digest(UNLIKE.read_text(encoding="utf-8").splitlines()),
    }
    with written_whole(out, made_of, force) as part:
        if part is not None:
            lines = [*steel_sky.read_lines(games.sky), *drascula.read_lines(games.drascula_texts, games.drascula)]
            write_corpus(lines, words, read_unlike(lines, UNLIKE), part)


def read_unlike(lines: Sequence[Line], path: Path) -> dict[str, set[str]]:
    """Line → spoken languages in which something else is heard.

    Raises SimulstError: the file names something that is no line of the games.
    """
    spoken = {line.name: line.speech for line in lines}
    unlike: dict[str, set[str]] = {}
    for row in path.read_text(encoding="utf-8").splitlines():
        name, _, language = row.partition("\t")
        if language not in spoken.get(name, ()):
            raise SimulstError(f"{path}: '{name}' in '{language}' is no line of the games; restore the file from git.")
        unlike.setdefault(name, set()).add(language)
    return unlike


def write_corpus(
    lines: Sequence[Line], words: Mapping[str, set[str]], unlike: Mapping[str, Collection[str]], out: Path
) -> None:
    """Select, true-case and split the lines, and write them to the existing folder `out`.

    words: language → list of words.
    unlike: see `read_unlike`.
    """
    usable: dict[str, list[tuple[str, str]]] = {}
    dropped: list[Dropped] = []
    for line in lines:
        usable[line.name], faults = usable_pairs(line, unlike.get(line.name, ()), PAIRS[line.game])
        dropped += faults
    texts = {
        language: [line.texts[language] for line in lines if language in line.texts]
        for language in sorted({language for line in lines for language in line.texts})
    }
    write_accents(texts, words, out)
    cased = true_cased(lines, texts, words)
    testable = {line.name for line in lines if len(usable[line.name]) == len(PAIRS[line.game])}
    chosen, left_out = split(cased, {name for name, pairs in usable.items() if pairs}, testable, SIZES, OTHERS)
    dropped += [Dropped(name, "", "split", why) for name, why in left_out.items()]
    (out / "dropped.log").write_text(format_dropped(dropped), encoding="utf-8")
    (out / "recordings").mkdir()
    planned = _planned(cased, chosen, usable)
    for _, recording in tqdm(planned, "recordings"):
        recordings.write(recording, out / "recordings" / f"{recording.name}.wav")
    counts = [
        _write_split(out, pair, name, [recording for at, recording in planned if at == name], usable)
        for pair in all_pairs()
        for name in SPLITS
    ]
    table = format_counts(counts)
    (out / "counts.tsv").write_text(table, encoding="utf-8")
    print(table, end="")
    for reason, n in sorted(Counter(d.reason for d in dropped).items()):
        print(f"left out: {reason}: {n}")


def true_cased(lines: Sequence[Line], texts: Mapping[str, Sequence[str]], words: Mapping[str, set[str]]) -> list[Line]:
    """The lines with true-cased texts, in the languages that have a list of words."""
    names, acronyms = shared_words(texts, words)
    casers = {la: Truecaser(la, texts[la], words[la], names, acronyms) for la in texts if la in words}
    return [
        replace(line, texts={la: casers[la](text) if la in casers else text for la, text in line.texts.items()})
        for line in lines
    ]


def _planned(
    lines: Sequence[Line], chosen: Mapping[str, str], usable: Mapping[str, Sequence[tuple[str, str]]]
) -> list[tuple[str, recordings.Recording]]:
    """The recordings of each split, game and spoken language, with the lines that are usable in some pair."""
    planned = []
    for game, pairs in PAIRS.items():
        for language in dict.fromkeys(source for source, _ in pairs):
            spoken = [
                line
                for line in lines
                if line.game == game and any(source == language for source, _ in usable[line.name])
            ]
            for name in SPLITS:
                of_split = [line for line in spoken if chosen.get(line.name) == name]
                found = recordings.plan(of_split, language, f"{game}-{language}-{name}")
                planned += [(name, recording) for recording in found]
    return planned


def _write_split(
    out: Path,
    pair: str,
    name: str,
    planned: Sequence[recordings.Recording],
    usable: Mapping[str, list[tuple[str, str]]],
) -> dict[str, str]:
    """Write MuST-C's files for one split of a pair, with links to the recordings. Returns the row of counts."""
    source, _, target = pair.partition("-")
    folder = out / pair / "data" / name
    (folder / "txt").mkdir(parents=True)
    (folder / "wav").mkdir()
    entries, kept = [], []
    for recording in planned:
        placed = [
            p for p in recording.lines if recording.language == source and (source, target) in usable[p.line.name]
        ]
        if not placed:
            continue
        wav = f"{recording.name}.wav"
        os.symlink(os.path.join("..", "..", "..", "..", "recordings", wav), folder / "wav" / wav)
        kept += placed
        entries += [
            f"- {{duration: {p.duration:.6f}, offset: {p.offset:.6f}, speaker_id: {p.line.speaker}, wav: {wav}}}\n"
            for p in placed
        ]
    (folder / "txt" / f"{name}.yaml").write_text("".join(entries), encoding="utf-8")
    for language in (source, target):
        text = "".join(f"{p.line.texts[language]}\n" for p in kept)
        (folder / "txt" / f"{name}.{language}").write_text(text, encoding="utf-8")
    return {
        "pair": pair,
        "split": name,
        "lines": str(len(kept)),
        "minutes": f"{sum(p.duration for p in kept) / 60:.1f}",
        "source words": str(sum(len(p.line.texts[source].split()) for p in kept)),
        "target words": str(sum(len(p.line.texts[target].split()) for p in kept)),
        "speakers": str(len({p.line.speaker for p in kept})),
        "recordings": str(len(list((folder / "wav").iterdir()))),
    }


def write_accents(texts: Mapping[str, Sequence[str]], words: Mapping[str, set[str]], out: Path) -> None:
    """List the words that the games write without the accents of the word list."""
    for language in sorted(words.keys() & texts.keys()):
        rows = sorted(without_accents(texts[language], words[language]).items(), key=lambda row: (-row[1], row[0]))
        lines = ["text\tlisted\tuses", *(f"{word}\t{listed}\t{n}" for (word, listed), n in rows)]
        (out / f"accents.{language}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def counts_tables(corpus: Path) -> list[dict[str, Any]]:
    """Tables of a corpus's counts.tsv: lines, minutes and speakers, then words, by pair and split.

    Raises SimulstError: the file is missing, or is no such table.
    """
    path = corpus / "counts.tsv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            cells = {(row["pair"], row["split"]): row for row in csv.DictReader(file, delimiter="\t")}
        pairs = dict.fromkeys(pair for pair, _ in cells)
        if not pairs:
            raise ValueError("no rows")
        heads = {
            "Lines (minutes, speakers)": "{lines} ({minutes:.0f}, {speakers})",
            "Words: source / target": "{source words} / {target words}",
        }
        tables = []
        for head, shape in heads.items():
            rows = []
            for pair in pairs:
                of_pair = [{**cells[pair, name], "minutes": float(cells[pair, name]["minutes"])} for name in SPLITS]
                rows.append((pair, *(shape.format(**row) for row in of_pair)))
            tables.append({"head": [head, *SPLITS], "rows": rows})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SimulstError(
            f"{path}: not the counts of a corpus; ./run.sh --recipe voices --only data --force makes them."
        ) from error
    return tables


def format_counts(rows: Sequence[Mapping[str, str]]) -> str:
    """A table with tabs."""
    return "\n".join(["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]) + "\n"


# ---- command ----


@click.command()
@click.option("--downloads", required=True, type=PATH, help="Folder for packages and wheels.")
@click.option("--out", required=True, type=PATH, help="Folder for the corpus, <pair>/data/<split>.")
@force_option("Write the corpus again.")
def main(downloads: Path, out: Path, force: bool) -> None:
    """Fetch two games, and write their acted speech and texts in MuST-C's layout."""
    prepare_voices(downloads, out, force)


if __name__ == "__main__":
    run_command(main)
