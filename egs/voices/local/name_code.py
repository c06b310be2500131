"""The code of Beneath a Steel Sky's texts: a table of code words (`sky_code.tsv`).

The table was found by comparing the messages' bits with what Whisper base heard of their speech
(docs/experiments/2026-11-22-voices-corpus.md). Its column `how` tells the evidence for each word.
"""

from __future__ import annotations

from pathlib import Path

from prefix_code import END, PrefixCode
from simulst.errors import SimulstError

TABLE = Path(__file__).with_name("sky_code.tsv")
SPELLED = {"<end>": END, "<space>": " "}
UNKNOWN = "\ufffd"


def parse_table(text: str) -> dict[str, str]:
    """Code word → character (END: the end), of a table. Raises SimulstError: a line that is none."""
    found = {}
    for number, line in enumerate(text.splitlines()[1:], start=2):
        fields = line.split("\t")
        if len(fields) != 5 or not fields[2].isdigit() or set(fields[0]) - {"0", "1"}:
            raise SimulstError(f"{TABLE}, line {number}: not code, character, uses, how, evidence; fix the line.")
        found[fields[0]] = SPELLED.get(fields[1], fields[1])
    return found


def sky_code() -> PrefixCode:
    """The code of the game's texts, from the table."""
    return PrefixCode(parse_table(TABLE.read_text(encoding="utf-8")))
