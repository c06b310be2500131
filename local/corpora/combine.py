"""Combine several language pairs, or several corpora, into one data directory.

If there are several pairs, each target begins with a target-language token.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulst.data.datadir import read_data_dir, text_file, write_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import digest, written_whole
from simulst.files.table import read_table
from simulst.languages import MULTI, language_token


def combine_pairs(
    data: Path, pairs: Sequence[str], split: str, out: Path, force: bool = False, also: Sequence[Path] = ()
) -> None:
    """Write `data/<pair>/<split>` of all pairs and corpora as one data directory, if it is not there yet.

    All keys get the prefix `<pair>-`, as pairs share talks, and those of other corpora the name of their folder before
    it. `text.tc.multi` holds the targets of several pairs, each after its language's token; of one pair,
    `text.tc.<target>` holds them as they are. `text.lc.rm.<source>` holds the sources. `out` appears whole or not at
    all.

    pairs: such as ["en-de", "en-ja"], with one source language.
    force: write the directory again.
    also: folders of other corpora, which have `<pair>/<split>` of at least one pair.

    Raises SimulstError: a pair twice; several source languages; one pair alone; a corpus without any of the pairs; two
        corpora of one name; what `read_data_dir` and `written_whole` raise.
    """
    sources = {pair.partition("-")[0] for pair in pairs}
    if len(set(pairs)) < len(pairs) or len(sources) != 1:
        raise SimulstError(f"pairs {' '.join(pairs)}: give different pairs with the same source language.")
    if len(pairs) == 1 and not also:
        raise SimulstError(f"pairs {pairs[0]}: one pair of one corpus; give more pairs, or another corpus by --also.")
    [source] = sources
    several = len(pairs) > 1
    text = f"text.tc.{MULTI if several else pairs[0].partition('-')[2]}"
    tables: dict[str, dict[str, str]] = {}
    for start, pair, folder in _folders(data, pairs, split, also):
        target = pair.partition("-")[2]
        read_data_dir(folder, target)  # checks that the tables hold the same utterances
        files = {name: folder / name for name in ("wav.scp", "segments", "utt2spk", f"text.lc.rm.{source}")}
        files[text] = text_file(folder, target)
        for name, file in files.items():
            table = read_table(file, allow_empty=name.startswith("text"))
            if name == text and several:
                table = {key: f"{language_token(target)} {value}" for key, value in table.items()}
            if name == "wav.scp":
                table = {key: str((folder / value).resolve()) for key, value in table.items()}
            # These two tables have other keys (recordings, speakers) as values, which get the prefix, too.
            named = name in ("segments", "utt2spk")
            rows = {f"{start}-{key}": f"{start}-{value}" if named else value for key, value in table.items()}
            tables.setdefault(name, {}).update(rows)
    made_of = {"pairs": list(pairs), "data": digest(f"{name} {table}" for name, table in tables.items())}
    with written_whole(out, made_of, force) as part:
        if part is not None:
            write_data_dir(part, tables)
            print(f"{out}: {len(tables['utt2spk'])} utterances")


def _folders(data: Path, pairs: Sequence[str], split: str, also: Sequence[Path]) -> list[tuple[str, str, Path]]:
    """The data directories, each with the start of its keys and its pair. Raises SimulstError: as `combine_pairs`."""
    found = [(pair, pair, data / pair / split) for pair in pairs]
    names = [corpus.resolve().name for corpus in also]
    for name, corpus in zip(names, also, strict=True):
        if names.count(name) > 1:
            raise SimulstError(f"{corpus}: two corpora are called {name}; rename one of the folders.")
        here = [pair for pair in pairs if (corpus / pair / split).is_dir()]
        if not here:
            raise SimulstError(
                f"{corpus}: has no {' or '.join(f'{pair}/{split}' for pair in pairs)}; name another folder."
            )
        found += [(f"{name}-{pair}", pair, corpus / pair / split) for pair in here]
    return found
