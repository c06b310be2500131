"""Chunk-aligned data: what to write after each chunk of speech, for models that learn a wait token.

Speech is heard in chunks. Alignments say when each word may go out: after the first chunk that has all of it, or `lag`
chunks later. The target text becomes `<lag1> Ich habe<wait> einen Stift<wait><wait> gekauft.`: a wait token ends each
chunk, and what follows the last one is written when the speech has ended. The token at the beginning names the lag, so
one model learns several.
"""

from __future__ import annotations

import bisect
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from simulst.audio.units import FRAME_MS
from simulst.data.datadir import Utterance, check_has, read_data_dir, text_file, write_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import digest, write_atomically, written_whole
from simulst.files.table import Timed, read_ctm, read_table
from simulst.hypotheses import WAIT, lag_token
from simulst.languages import unit_of
from simulst.measure.latency import length_adaptive_average_lagging
from simulst.prefix.pairs import read_prefixes, tables_of
from simulst.words import split

CHUNKS = "chunks.jsonl"
Times = Sequence[float | None]
"""For each word: ms of speech after which it may go out; None: not known."""


@dataclass(frozen=True)
class Grid:
    """Where chunks end: at first_ms, and then after every `ms` of speech, as READ `chunk` with initial_wait_ms."""

    first_ms: float
    ms: float

    def __post_init__(self) -> None:
        if not (self.ms > 0 and self.first_ms > 0):
            raise SimulstError(f"--ms {self.ms:g}, --first-ms {self.first_ms:g}: a chunk needs a positive length.")

    def ends(self, total_ms: float) -> list[float]:
        """The ends of all chunks but the last, which ends with the speech."""
        ends, end = [], self.first_ms
        while end < total_ms:
            ends.append(end)
            end = self.first_ms + len(ends) * self.ms
        return ends


@dataclass(frozen=True)
class Aligned:
    """A target text, and when its words may go out.

    words: of the text, each with the space before it; characters of languages without spaces.
    heard: the source's words, if they are known.
    """

    words: Sequence[str]
    times: Times
    heard: Sequence[Timed] = ()


def place(times: Times, ends: Sequence[float], lag: int) -> list[int]:
    """The chunk, counted from 0, in which each word goes out; len(ends) is the last one, at the end of the speech.

    A word whose time is not known goes out with the next one that has a time. No word goes out before those before it.
    """
    chunks: list[int] = []
    following = len(ends)  # of words after which no time is known
    for time in reversed(times):
        if time is not None:
            following = min(bisect.bisect_left(ends, time) + lag, len(ends))
        chunks.append(following)
    chunks.reverse()
    for number in range(1, len(chunks)):
        chunks[number] = max(chunks[number], chunks[number - 1])
    return chunks


def from_prefixes(path: Path, target: str) -> dict[str, Aligned]:
    """Utterance → its offline translation, whose words go out as prefix pairs have them."""
    unit, found = unit_of(target), {}
    for line in read_prefixes(path):
        words = _words(line["offline"], unit)
        times: list[float | None] = [None] * len(words)
        done = 0
        for pair in line["pairs"]:
            end = min(len(_words(pair["text"], unit)), len(words))
            times[done:end] = [pair["frames"] * FRAME_MS] * (end - done)
            done = max(done, end)
        found[line["utterance"]] = Aligned(words, times)
    return found


def from_times(path: Path, texts: Mapping[str, str], target: str, links: Path | None = None) -> dict[str, Aligned]:
    """Utterance → its text in `texts`, whose words go out once they were spoken.

    path: their CTM.
    links: a table of alignments in Pharaoh's format, such as `utt1 0-0 2-1`, source first. The CTM has the source's
        words then, and a word goes out once all were spoken that are linked to it.
    """
    found, unit, spoken = {}, unit_of(target), read_ends(path)
    heard = dict[str, list[Timed]]()
    for timed in read_ctm(path) if links else ():
        heard.setdefault(timed.name, []).append(timed)
    linked = {name: " ".join(f"{n}-{n}" for n in range(len(times))) for name, times in spoken.items()}
    if links is not None:
        linked = read_table(links, allow_empty=True)
    for name in linked.keys() & spoken.keys() & texts.keys():
        words, ends = _words(texts[name], unit), spoken[name]
        if links is None and len(words) != len(ends):
            raise SimulstError(
                f"{path}: '{name}' has times of {len(ends)} words, but {len(words)} in its text; give times of the "
                "target's words, or --links and times of the source's."
            )
        times: list[float | None] = [None] * len(words)
        for link in linked[name].split():
            one, _, other = link.partition("-")
            if not (one.isdigit() and other.isdigit() and int(one) < len(ends) and int(other) < len(words)):
                raise SimulstError(
                    f"{links}: '{name}' has the link '{link}', but {len(ends)} source and {len(words)} target words, "
                    "counted from 0; give the alignment of these words, such as 0-0 2-1."
                )
            times[int(other)] = max(times[int(other)] or 0.0, ends[int(one)])
        found[name] = Aligned(words, times, heard.get(name, ()))
    return found


def read_ends(path: Path) -> dict[str, list[float]]:
    """Utterance → the end of each of its words in a CTM file, in ms. Raises SimulstError: as `read_ctm`."""
    found: dict[str, list[float]] = {}
    for one in read_ctm(path):
        found.setdefault(one.name, []).append(one.end * 1000)
    return found


def write_chunks(
    data: Path,
    aligned: Mapping[str, Aligned],
    out: Path,
    target: str,
    grid: Grid,
    lags: Sequence[int],
    force: bool = False,
) -> None:
    """Write chunk-aligned data as a data directory.

    `out/chunks.jsonl` has the same as texts of chunks, for text models.

    aligned: utterance → when its words may go out; others are left out.
    lags: in chunks. Utterances have them in turn.

    Raises SimulstError: nothing is aligned; a lag is negative or longer than all utterances; what `read_data_dir` and
        `written_whole` raise.
    """
    if not lags or min(lags) < 0 or len(set(lags)) < len(lags):
        raise SimulstError(f"--lags {' '.join(map(str, lags))}: give different numbers of chunks, 0 or more.")
    utterances = read_data_dir(data, target)
    known = [one for one in utterances if aligned.get(one.name) and any(t is not None for t in aligned[one.name].times)]
    if not known:
        raise SimulstError(f"{data}: none of its {len(utterances)} utterances is aligned; give alignments of these.")
    rows, lines, sources = dict[str, tuple[Utterance, str]](), list[str](), list[str]()
    counts, lagging = {lag: Counter[str]() for lag in lags}, {lag: list[float]() for lag in lags}
    for number, utterance in enumerate(known):
        words, total_ms = aligned[utterance.name].words, utterance.seconds * 1000
        ends = grid.ends(total_ms)
        if any(token in "".join(words) for token in (WAIT, *map(lag_token, lags))):
            raise SimulstError(f"{data}: the text of '{utterance.name}' has one of the tokens '{WAIT}'; remove it.")
        lag = lags[number % len(lags)]
        chunks = place(aligned[utterance.name].times, ends, lag)
        texts = [""] * (len(ends) + 1)
        for word, chunk in zip(words, chunks, strict=True):
            texts[chunk] += word
        rows[utterance.name] = utterance, lag_token(lag) + WAIT.join(texts)
        heard = [{"ms": ms, "text": text.strip()} for ms, text in zip([*ends, total_ms], texts, strict=True)]
        line = {"utterance": utterance.name, "lag": lag, "chunks": heard}
        if aligned[utterance.name].heard:
            spoken = [(one.word, bisect.bisect_left(ends, one.end * 1000)) for one in aligned[utterance.name].heard]
            line["source"] = [" ".join(w for w, at in spoken if at == chunk) for chunk in range(len(texts))]
            sources.append(f"{utterance.name} {line['source']}")
        lines.append(json.dumps(line, ensure_ascii=False))
        placed = sum(time is not None for time in aligned[utterance.name].times)
        early = sum(chunk < len(ends) for chunk in chunks)
        counts[lag].update(utterances=1, words=len(words), placed=placed, early=early)
        delays = [[*ends, total_ms][chunk] for chunk in chunks]
        lagging[lag].append(length_adaptive_average_lagging(delays, total_ms, len(words)))
    late = [lag for lag in lags if counts[lag]["words"] and not counts[lag]["early"]]
    if late:
        raise SimulstError(
            f"--lags {late[0]}: no utterance has a word before its end with this lag of chunks of {grid.ms:g} ms; "
            "give shorter chunks or a smaller lag."
        )
    tables = tables_of(data, {name: (one, None) for name, (one, _) in rows.items()})
    tables[f"text.tc.{target}"] = {name: text for name, (_, text) in rows.items()}
    for file in sorted(data.glob("text.*")):
        if file != text_file(data, target):
            others = read_table(file, allow_empty=True)
            check_has(file, others, (one.name for one, _ in rows.values()))
            tables[file.name] = {name: others[one.name] for name, (one, _) in rows.items()}
    of = digest([*(f"{n} {t}" for n, t in tables.items()), *sources])
    made_of = {"grid": asdict(grid), "lags": list(lags), "data": of}
    with written_whole(out, made_of, force) as part:
        if part is None:
            return
        write_data_dir(part, tables)
        write_atomically(part / CHUNKS, "".join(f"{line}\n" for line in lines))
        left_out = len(utterances) - len(known)
        print(f"{out}: {len(known)} utterances" + (f", {left_out} left out without times" if left_out else ""))
        for lag in filter(lagging.get, lags):
            n, laal = counts[lag], fmean(lagging[lag])
            shares = f"{n['placed'] / n['words']:.0%} have times, {n['early'] / n['words']:.0%} go out before the end"
            print(f"  lag {lag}: {n['utterances']} utterances, {n['words']} words: {shares}; LAAL {laal:.0f} ms")


def _words(text: str, unit: str) -> list[str]:
    """The words of a text, each with a space before it; characters as they stand."""
    return [f" {word}" for word in text.split()] if unit == "word" else split(text.strip(), unit)
