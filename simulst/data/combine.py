"""Combine several language pairs into one data directory; each target begins with a target-language token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulst.data.datadir import read_data_dir, read_table, text_file, write_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import written_whole
from simulst.files.lock import digest
from simulst.languages import language_token

TARGET = "multi"


def combine_pairs(data: Path, pairs: Sequence[str], split: str, out: Path, force: bool = False) -> None:
    """Write `data/<pair>/<split>` of all pairs as one data directory, if it is not there yet.

    All keys get the prefix `<pair>-`, as pairs share talks. `text.tc.multi` holds the targets, each after its
    language's token. `text.lc.rm.<source>` holds the sources. `out` appears whole or not at all.

    pairs: such as ["en-de", "en-ja"], with one source language.
    force: write the directory again.

    Raises SimulstError: fewer than two pairs; several source languages; what `read_data_dir` and `written_whole`
        raise.
    """
    sources = {pair.partition("-")[0] for pair in pairs}
    if len(set(pairs)) < 2 or len(sources) != 1:
        raise SimulstError(f"pairs {' '.join(pairs)}: give two or more pairs with the same source language.")
    [source] = sources
    tables: dict[str, dict[str, str]] = {}
    for pair in pairs:
        folder, target = data / pair / split, pair.partition("-")[2]
        read_data_dir(folder, target)  # checks that the tables hold the same utterances
        files = {name: folder / name for name in ("wav.scp", "segments", "utt2spk", f"text.lc.rm.{source}")}
        files[f"text.tc.{TARGET}"] = text_file(folder, target)
        for name, file in files.items():
            table = read_table(file, allow_empty=name.startswith("text"))
            if name == f"text.tc.{TARGET}":
                table = {key: f"{language_token(target)} {value}" for key, value in table.items()}
            if name == "wav.scp":
                table = {key: str((folder / value).resolve()) for key, value in table.items()}
            # These two tables have other keys (recordings, speakers) as values, which get the prefix, too.
            named = name in ("segments", "utt2spk")
            rows = {f"{pair}-{key}": f"{pair}-{value}" if named else value for key, value in table.items()}
            tables.setdefault(name, {}).update(rows)
    made_of = {"pairs": list(pairs), "data": digest(f"{name} {table}" for name, table in tables.items())}
    with written_whole(out, made_of, force) as part:
        if part is not None:
            write_data_dir(part, tables)
            print(f"{out}: {len(tables['utt2spk'])} utterances")
