"""MuST-C's layout, as data directories (`corpus` says what becomes of the segments).

In: ROOT/<pair>/data/<split>/txt/{<split>.yaml,<split>.<source>,<split>.<target>}, ROOT/<pair>/data/<split>/wav/*.wav

Versions 1 to 3 have this layout; they differ in their pairs, in talks and in the keys of the YAML. Line n of the texts
belongs to segment n of the YAML. Never dropped, but always a stop: what would shift the texts against the segments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from os.path import basename
from pathlib import Path

import yaml
from tqdm import tqdm

from simulst.data.corpus import Choice, Log, Segment, Split, prepare, span
from simulst.data.text import has_words, one_line
from simulst.errors import SimulstError

SPLITS = ("train", "dev", "tst-COMMON", "tst-HE")
RELEASES = {"1.0": "de es fr it nl pt ro ru", "1.2": "ar cs fa tr vi zh", "2 and 3": "de ja zh"}  # targets of English
BATCH = 500  # segments that are parsed together; all at once takes gigabytes, and three times as long

_SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, where it was built


def prepare_must_c(
    root: Path, out: Path, pair: str, splits: Sequence[str] = SPLITS, choice: Choice | None = None
) -> dict[str, Counter[str]]:
    """Read `splits` of a pair such as "en-de" and write a data directory for each; root: the folder that holds <pair>.

    Returns: split → count for each of `corpus.COLUMNS`.
    Raises SimulstError: pair, split or file missing, text that is not UTF-8, unreadable YAML, segments and lines that
        differ in number, and what `prepare` raises.
    """
    folders = {split: find_split(root, pair, split) for split in splits}
    found = {
        split: Split(folder / "txt" / f"{split}.yaml", partial(read_split, folder, pair, split))
        for split, folder in folders.items()
    }
    return prepare(pair, found, out, choice or Choice())


# ---- finding ----


def find_split(root: Path, pair: str, split: str) -> Path:
    """The folder of a split. Raises SimulstError that says what there is instead, or what to give as root."""
    data = root / pair / "data"
    if not data.is_dir():
        raise SimulstError(_why_no_pair(root, pair))
    folder = data / split
    if not folder.is_dir():
        raise SimulstError(f"{data}: no split '{split}'; it has {_names(data)}.")
    for name in ("txt", "wav"):
        if not (folder / name).is_dir():
            raise SimulstError(f"{folder}: no folder {name}; it has {_names(folder)}; unpack the whole archive again.")
    return folder


def version_of(listing: Path) -> str:
    """ "1", or "2 or 3", which look the same: only their segments have numbers of words. listing: a split's YAML."""
    try:
        with listing.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise SimulstError(f"{listing}: cannot be read ({error.strerror}); copy the corpus again.") from error
    return "2 or 3" if re.search(rb"""[\s{,]["']?rW["']?\s*:""", head) else "1"


def check_version(root: Path, pair: str, splits: Sequence[str], version: str = "") -> str:
    """The version of MuST-C whose form a pair's files have: "1", "2 or 3", or both where the splits differ.

    Raises SimulstError: it is not `version` ("1", "2" or "3"; "": any), or what `find_split` raises.
    """
    found = {}
    for split in splits:
        listing = find_split(root, pair, split) / "txt" / f"{split}.yaml"
        found[split] = version_of(listing)
        if version and version not in found[split].split(" or "):
            what = "no rW" if found[split] == "1" else "rW"
            raise SimulstError(
                f"{listing}: of MuST-C version {found[split]} (its segments have {what}), not {version}; "
                f"give the --root of version {version}, or --version {found[split][0]}."
            )
    return " and ".join(sorted(set(found.values())))


def _why_no_pair(root: Path, pair: str) -> str:
    """One sentence with the mend: another root, an archive to unpack, another version of the corpus."""
    if not root.is_dir():
        return f"{root}: no such folder; --root is the folder that holds {pair}/data."
    above = [path for path in root.absolute().parents if (path / pair / "data").is_dir()]
    below = [path.parent.parent for path in sorted(root.glob(f"*/{pair}/data"))]
    if near := [*above, *below]:
        return f"{root}: no {pair}/data in it; give --root {near[0]}."
    archives = [path for end in (".tar.gz", ".tgz", ".tar", ".zip") for path in sorted(root.glob(f"*{pair}*{end}"))]
    if archives:
        return f"{archives[0]}: not unpacked; unpack it there, so that {root / pair / 'data'} exists."
    have = ", ".join(sorted(path.parent.name for path in root.glob("*-*/data"))) or "none (<pair>/data/)"
    source, _, target = pair.partition("-")
    releases = [name for name, targets in RELEASES.items() if source == "en" and target in targets.split()]
    whose = f"MuST-C has it in version {', '.join(releases)}" if releases else "MuST-C has no such pair"
    return f"{root}: no language pair '{pair}'; it has {have} ({whose})."


def _names(folder: Path) -> str:
    return ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"


# ---- reading ----


def read_split(folder: Path, pair: str, split: str, log: Log) -> Iterator[Segment]:
    """The segments of a split; faults go to the log. Raises SimulstError: what shifts texts against segments."""
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
    """The lines of a text, as `one_line` gives them; Windows line ends and a byte order mark are accepted.

    Only line feeds end a line: MuST-C has other separators within its sentences.
    Raises SimulstError: no such file, or not UTF-8.
    """
    return [one_line(line) for line in _read(path)]


def read_segments(path: Path) -> tuple[int, Iterator[tuple[int, object]]]:
    """The number of items of a YAML list, and each with its line; inline maps or block style.

    The number is known, and the items are parsed, before all are in memory.
    Raises SimulstError: no such file, not UTF-8; while parsing: not YAML, not a list.
    """
    lines = _read(path)
    dashes = (re.match(r" *-(?=[ \r]|$)", line) for line in lines)
    indents = [len(dash[0]) if dash else 0 for dash in dashes]
    outer = next(filter(None, indents), 0)
    starts = [i for i, indent in enumerate(indents) if indent == outer > 0]
    items = _parse(path, lines, starts)
    return (len(starts), items) if starts else (0, iter(list(items)))  # at once says what else the file is


def _parse(path: Path, lines: Sequence[str], starts: Sequence[int]) -> Iterator[tuple[int, object]]:
    firsts = starts[::BATCH] or [0]
    for n, first in enumerate(firsts):
        batch = starts[n * BATCH : (n + 1) * BATCH]
        begin, end = first if n else 0, firsts[n + 1] if n + 1 < len(firsts) else len(lines)
        try:
            items = yaml.load("\n".join(lines[begin:end]), _SafeLoader)
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: such as a date that there is not
            mark = getattr(error, "problem_mark", None)
            line = min(begin + (mark.line if mark else 0) + 1, end)
            problem = getattr(error, "problem", error)
            raise SimulstError(f"{path}, line {line}: not YAML ({problem}); copy it again.") from error
        if items is None and not batch:
            return
        if not isinstance(items, list) or len(items) != len(batch):
            raise SimulstError(
                f"{path}, line {begin + 1}: no list of segments; lines should be '- {{duration: ..., offset: ...}}'."
            )
        yield from zip((start + 1 for start in batch), items, strict=True)


def _read(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SimulstError(f"{path}: cannot be read ({error.strerror}); copy the corpus again.") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SimulstError(f"{path}, line {line}: not UTF-8; convert the file.") from error
    return text.removesuffix("\n").split("\n") if text else []


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
    # Numbers are padded so that speakers and utterances sort alike.
    name = f"{speaker}_{recording}_{round(1000 * times[0]):07}_{round(1000 * times[1]):07}"
    audio = folder / (wav if wav.endswith(".wav") else f"{wav}.wav")
    return Segment(line, name, speaker, recording, audio, *times, source, target)


def _padded(name: str) -> str:
    """ "spk.12" → "spk.00012": numbers sort, and no name is the beginning of another."""
    return re.sub(r"\d+", lambda digits: digits[0].zfill(5), re.sub(r"\s+", "-", name))
