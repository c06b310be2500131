"""Read a corpus in MuST-C's layout. (`corpus` filters the segments and writes data directories.)

In: ROOT/<pair>/data/<split>/txt/{<split>.yaml,<split>.<source>,<split>.<target>}, ROOT/<pair>/data/<split>/wav/*.wav

Versions 1 to 3 have this layout. They differ in their pairs, their talks and the keys of the YAML. Line n of the texts
belongs to segment n of the YAML. A fault that would shift the texts against the segments always stops the preparation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from os.path import basename
from pathlib import Path

from tqdm import tqdm

from corpora.corpus import Choice, Log, Segment, Split, prepare, span
from corpora.text import has_words, one_line
from simulst.errors import SimulstError
from simulst.files.text import lines_of, read_bytes
from simulst.measure.segmentation import read_segments

SPLITS = ("train", "dev", "tst-COMMON", "tst-HE")


def prepare_must_c(
    root: Path, out: Path, pair: str, splits: Sequence[str] = SPLITS, choice: Choice | None = None
) -> dict[str, Counter[str]]:
    """Write a data directory for each split of a language pair.

    root: the folder that holds <pair>.
    pair: such as "en-de".

    Returns: split → count for each of `corpus.COLUMNS`.
    Raises SimulstError: the pair, a split or a file is missing; a text is not UTF-8; the YAML is not readable; the
        numbers of segments and lines differ; what `prepare` raises.
    """
    folders = {split: find_split(root, pair, split) for split in splits}
    found = {
        split: Split(folder / "txt" / f"{split}.yaml", partial(read_split, folder, pair, split))
        for split, folder in folders.items()
    }
    return prepare(pair, found, out, choice or Choice())


# ---- finding ----


def find_split(root: Path, pair: str, split: str) -> Path:
    """The folder of a split.

    Raises SimulstError: the folder is missing. The message lists what is there, or suggests another root.
    """
    data = root / pair / "data"
    if not data.is_dir():
        if not root.is_dir():
            raise SimulstError(f"{root}: no such folder; --root is the folder that holds {pair}/data.")
        have = ", ".join(sorted(path.parent.name for path in root.glob("*-*/data"))) or "none"
        raise SimulstError(
            f"{root}: no language pair '{pair}'; it has {have}. Give the --root that holds {pair}/data, unpacked."
        )
    folder = data / split
    if not folder.is_dir():
        raise SimulstError(f"{data}: no split '{split}'; it has {_names(data)}.")
    for name in ("txt", "wav"):
        if not (folder / name).is_dir():
            raise SimulstError(f"{folder}: no folder {name}; it has {_names(folder)}; unpack the whole archive again.")
    return folder


def version_of(listing: Path) -> str:
    """The version of MuST-C: "1" or "2 or 3". Versions 2 and 3 look the same: only their segments count words (rW).

    listing: a split's YAML.
    """
    head = read_bytes(listing, "check the path, or copy the corpus again")[:4096]
    return "2 or 3" if re.search(rb"""[\s{,]["']?rW["']?\s*:""", head) else "1"


def check_version(root: Path, pair: str, splits: Sequence[str], version: str = "") -> str:
    """The version of MuST-C that a pair's files look like: "1", "2 or 3", or both if the splits differ.

    version: the version that is expected ("1", "2" or "3"); "" for any.

    Raises SimulstError: the files have another version; what `find_split` raises.
    """
    found = {}
    for split in splits:
        listing = find_split(root, pair, split) / "txt" / f"{split}.yaml"
        found[split] = version_of(listing)
        if version and version not in found[split].split(" or "):
            what = "no rW" if found[split] == "1" else "rW"
            raise SimulstError(
                f"{listing}: MuST-C version {found[split]} (its segments have {what}), not {version}; "
                f"give the --root of version {version}, or --version {found[split][0]}."
            )
    return " and ".join(sorted(set(found.values())))


def _names(folder: Path) -> str:
    return ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"


# ---- reading ----


def read_split(folder: Path, pair: str, split: str, log: Log) -> Iterator[Segment]:
    """The segments of a split; faults go to the log.

    Raises SimulstError: a fault that would shift the texts against the segments.
    """
    languages = pair.partition("-")[::2]
    texts = [read_lines(folder / "txt" / f"{split}.{language}") for language in languages]
    n, segments = read_segments(log.listing)
    for language, lines in zip(languages, texts, strict=True):
        if len(lines) != n:
            raise SimulstError(
                f"{log.listing}: {n} segments, but {len(lines)} lines in {split}.{language}, so line "
                f"{min(len(lines), n) + 1} has no partner; copy the files again."
            )
    log.counts["found"] = n
    rows = enumerate(zip(segments, *texts, strict=True), start=1)
    for row, ((line, values), source, target) in tqdm(rows, f"{pair} {split}", n, disable=None):
        wordless = [la for la, text in zip(languages, (source, target), strict=True) if not has_words(text)]
        segment = _segment(folder / "wav", line, values, source, target)
        if isinstance(segment, str):
            log.fault("bad segment", line, segment)
        elif wordless:
            log.fault("empty", f"{folder / 'txt' / split}.{wordless[0]}, line {row}", "there are no words")
        else:
            yield segment


def read_lines(path: Path) -> list[str]:
    """The lines of a text, as `one_line` returns them. Windows line ends and a byte order mark are accepted.

    Only a line feed ends a line: MuST-C's sentences contain other separators.
    Raises SimulstError: the file is missing or not UTF-8.
    """
    return [one_line(line) for line in lines_of(path)]


def _segment(folder: Path, line: int, values: object, source: str, target: str) -> Segment | str:
    """A segment, or what is wrong with it."""
    if not isinstance(values, dict):
        return "this is no segment"
    if missing := [key for key in ("offset", "duration", "wav") if values.get(key) is None]:
        return f"'{missing[0]}' is missing"
    times = span(values["offset"], values["duration"])
    if isinstance(times, str):
        return times
    wav = str(values["wav"])
    if basename(wav) != wav:
        return f"'{wav}' is no plain file name"
    recording = _padded(wav.removesuffix(".wav"))
    speaker = _padded(str(values.get("speaker_id") or wav.removesuffix(".wav")))
    # Numbers are padded so that utterances sort in the order of their speakers.
    name = f"{speaker}_{recording}_{round(1000 * times[0]):07}_{round(1000 * times[1]):07}"
    audio = folder / (wav if wav.endswith(".wav") else f"{wav}.wav")
    return Segment(line, name, speaker, recording, audio, *times, source, target)


def _padded(name: str) -> str:
    """ "spk.12" → "spk.00012": names sort by number, and no name is a prefix of another."""
    return re.sub(r"\d+", lambda digits: digits[0].zfill(5), re.sub(r"\s+", "-", name))
