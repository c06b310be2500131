"""Terms to measure context with: each recording's rare words, hidden among those of others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

import click

from simulst.commands.common import PATH, run_command, target_lang_option
from simulst.data.datadir import Utterance, read_data_dir
from simulst.errors import SimulstError, first_line
from simulst.files.folder import write_atomically
from simulst.languages import unit_of

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
LETTERS = 4  # a shorter word is no term


def frequent_words(lines: Iterable[str], share: float) -> set[str]:
    """The most frequent words, in lower case, that together make up this share (0 to 1) of a text."""
    counts = Counter(word.lower() for line in lines for word in WORD.findall(line))
    frequent: set[str] = set()
    covered = 0
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered >= share * counts.total():
            break
        frequent.add(word)
        covered += count
    return frequent


def write_rare_words(
    path: Path, utterances: Sequence[Utterance], lines: Iterable[str], share: float = 0.8, others: int = 10
) -> int:
    """Write a table of context (simulst/background.py) with the rare words of the references as terms.

    Words are rare if they are not among the most frequent ones, which make up `share` of `lines`. Each recording gets
    its own rare words and `others` of other recordings, which a hash chooses, in the order of the alphabet. So the
    table does not say which of them are spoken.

    Returns: how many terms the recordings have of their own.
    Raises SimulstError: there is no rare word.
    """
    frequent = frequent_words(lines, share)
    rare: dict[str, dict[str, str]] = {}  # recording → word in lower case → as it is written
    for utterance in utterances:
        words = (word for word in WORD.findall(utterance.reference or "") if len(word) >= LETTERS)
        rare[utterance.name] = {word.lower(): word for word in words if word.lower() not in frequent}
    known = {word: written for own in rare.values() for word, written in own.items()}
    if not known:
        raise SimulstError(f"{path}: the references have no rare words to write; give more text, or a smaller share.")
    rows = ["recording\tterms"]
    for name, own in rare.items():
        drawn = sorted(known.keys() - own.keys(), key=lambda word: sha256(f"{name} {word}".encode()).digest())
        shown = {word: known[word] for word in drawn[:others]} | own
        rows.append(f"{name}\t{'; '.join('=' + shown[word] for word in sorted(shown))}")
    write_atomically(path, "\n".join(rows) + "\n")
    return sum(map(len, rare.values()))


@click.command()
@click.option("--data", required=True, help="Data directory of the recordings.")
@target_lang_option
@click.option("--counted", required=True, type=PATH, help="Text that says what is frequent.")
@click.option(
    "--share",
    default=0.8,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="The most frequent words make up this share of it.",
)
@click.option(
    "--others",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="Terms of other recordings that each recording gets.",
)
@click.option("--out", required=True, type=PATH, help="Table to write.")
def main(data: str, target_lang: str, counted: Path, share: float, others: int, out: Path) -> None:
    """Write a table of terms for --context, from the references.

    The terms of a recording are the rare words of its references, hidden among those of other recordings.
    """
    if unit_of(target_lang) != "word":
        raise SimulstError(f"'{target_lang}' has no spaces between words, so its rare words are not known.")
    try:
        lines = [line.partition(" ")[2] for line in counted.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise SimulstError(f"{counted}: cannot be read ({first_line(error)}); give a text in UTF-8.") from None
    count = write_rare_words(out, read_data_dir(data, target_lang), lines, share, others)
    print(f"{out}: {count} rare words.")


if __name__ == "__main__":
    run_command(main)
