"""Scores of whole recordings: OmniSTEval cuts their text at the sentences of the references, and scores these.

Average lagging of a whole recording means nothing: the ideal writer that it compares with speaks at one rate from the
first word to the last, through all pauses. So each sentence is given the words that were meant for it (Polák et al.
2025, SoftSegmenter), and lags count from its beginning.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from simulst.audio.name import recording_name
from simulst.errors import SimulstError
from simulst.files.folder import digest
from simulst.languages import code_of
from simulst.log.instance import Instance, check_units
from simulst.log.simuleval import check_milliseconds
from simulst.measure.latency import real_time_factor
from simulst.measure.metric import Texts, rounded
from simulst.measure.segmentation import Sentence, read_lines, read_segmentation

logger = logging.getLogger(__name__)

GAPS = "gaps.tsv"


@dataclass(frozen=True)
class Sentences:
    """The sentences of whole recordings.

    segmentation: a YAML list of {wav, offset, duration} (seconds), as MuST-C has it; recordings are found by the names
        of their files without folder and suffix. references: a line for each of its segments.
    """

    segmentation: Path
    references: Path


@dataclass(frozen=True)
class Cut:
    """Recordings that are cut into sentences.

    of: the sentences, as the user gave them. ordered: the instances, as the segmentation names them. units: their
    units, OmniSTEval's. sentences, lines: the segments, and their references as OmniSTEval reads them. found: what was
    written for each, OmniSTEval's. unit: "word" or "char".
    """

    of: Sentences
    ordered: list[Instance]
    units: list[list[Any]]
    sentences: list[Sentence]
    lines: list[str]
    found: list[Any]
    unit: str

    def written(self, language: str) -> Texts:
        """The texts of the sentences."""
        terms = {instance.recording: instance.terms for instance in self.ordered}
        return Texts(
            tuple(found.prediction for found in self.found),
            tuple(self.lines),
            language,
            self.unit,
            names=tuple(range(len(self.lines))),
            terms=tuple(terms[sentence.recording] for sentence in self.sentences),
        )


def figures_of(cut: Cut) -> dict[str, Any]:
    """Lags of recordings, and what is counted.

    Returns: LongYAAL, LongLAAL (OmniSTEval's), StreamLAAL (simulstream's, with the words cut by mwerSegmenter), each
        also with _CA (ms; None if nothing was written, or no elapsed times were logged): with the computation of each
        step alone, whatever the log adds up; RTF; recordings; sentences; empty, how many sentences were given no word;
        missing and extra, by how many units sentences are shorter or longer than their references, in % of all these;
        length_ratio; unit; test_set, a digest of the sentences; and if the segmentation has a `gaps.tsv` beside it,
        invented, how many units a minute were written in its gaps, where nobody speaks.
    """
    from omnisteval.scoring import evaluate_instances

    # Quality is sacreBLEU's, as OmniSTEval's is, but with intervals.
    lags, _, _ = evaluate_instances(cut.found, compute_quality=False, fix_emission_ca_flag=True)
    plain, aware = _stream_laal(cut.units, cut.sentences, cut.unit)
    wanted = [_count(line, cut.unit) for line in cut.lines]
    more = [_count(f.prediction, cut.unit) - count for f, count in zip(cut.found, wanted, strict=True)]
    total = sum(wanted)

    def share(units: float, percent: int = 1) -> float | None:
        return rounded(percent * units / total) if total else None

    return {
        "LongYAAL": rounded(lags.get("long_yaal")),
        "LongLAAL": rounded(lags.get("long_laal")),
        "StreamLAAL": rounded(plain),
        "LongYAAL_CA": rounded(lags.get("ca_long_yaal")),
        "LongLAAL_CA": rounded(lags.get("ca_long_laal")),
        "StreamLAAL_CA": rounded(aware),
        "RTF": rounded(real_time_factor(cut.ordered), 4),
        "recordings": len(cut.ordered),
        "sentences": len(cut.sentences),
        "empty": sum(not f.prediction.strip() for f in cut.found),
        "missing": share(sum(max(0, -count) for count in more), 100),
        "extra": share(sum(max(0, count) for count in more), 100),
        "length_ratio": share(sum(len(instance.delays) for instance in cut.ordered)),
        "unit": cut.unit,
        "test_set": digest(map(str, sorted((s.recording, s.offset, s.duration, s.text) for s in cut.sentences))),
        **_invented(cut.ordered, cut.of.segmentation.with_name(GAPS)),
    }


def _count(text: str, unit: str) -> int:
    return len(text.replace(" ", "") if unit == "char" else text.split())


@dataclass(frozen=True)
class Gap:
    """A part of a recording without speech: the recording's name, where it begins, how long it is (s), and its kind."""

    recording: str
    offset: float
    duration: float
    kind: str


def read_gaps(path: Path) -> list[Gap]:
    """The gaps that `local/talks.py` lists in gaps.tsv. Raises SimulstError: a line that is no such entry."""
    gaps = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            wav, offset, duration, kind = line.split("\t")
            gaps.append(Gap(recording_name(wav), float(offset), float(duration), kind))
        except ValueError:
            raise SimulstError(
                f"{path}, line {number}: not recording, offset, duration and kind with tabs between; "
                "write the talks again."
            ) from None
    return gaps


def _invented(instances: Sequence[Instance], path: Path) -> dict[str, float | None]:
    found = words_in_gaps(instances, read_gaps(path)).values() if path.is_file() else []
    minutes = sum(minutes for _, minutes in found)
    return {"invented": rounded(sum(units for units, _ in found) / minutes)} if minutes else {}


def words_in_gaps(
    instances: Sequence[Instance], gaps: Sequence[Gap], settle: float = 5.0
) -> dict[str, tuple[int, float]]:
    """What was written without speech: for each kind of gap, how many units, and in how many minutes.

    settle: seconds at the beginning of a gap that do not count, as words from before are still written there.
    """
    found: dict[str, tuple[int, float]] = {}
    for gap in gaps:
        first, end = 1000 * (gap.offset + settle), 1000 * (gap.offset + gap.duration)
        delays = [delay for i in instances if i.recording == gap.recording for delay in i.delays]
        words, minutes = found.get(gap.kind, (0, 0.0))
        found[gap.kind] = (
            words + sum(first < delay <= end for delay in delays),
            minutes + max(0.0, end - first) / 60_000,
        )
    return found


def cut_recordings(instances: Sequence[Instance], of: Sentences, language: str, unit: str, path: str | Path) -> Cut:
    """Cut recordings into sentences. path: names the log in errors.

    Raises SimulstError: what `read_segmentation` raises, recordings that only the log or only the segmentation has,
        predictions that don't match their delays, OmniSTEval or simulstream missing.
    """
    _check_installed()
    from omnisteval.alignment import Word, process_alignment
    from omnisteval.data import Instance as Scored
    from omnisteval.tokenization import tokenize_words

    check_units(instances, unit, path)
    sentences = read_segmentation(of.segmentation, of.references)
    ordered = _in_order(instances, sentences, path, of.segmentation)
    by_character = unit == "char"
    units = [_words(instance, unit) for instance in ordered]
    lines = [sentence.text.replace(" ", "") if by_character else sentence.text for sentence in sentences]
    right: dict[str, list[Any]] = {instance.recording: [] for instance in ordered}
    ends: dict[str, float] = {}
    for number, (sentence, line) in enumerate(zip(sentences, lines, strict=True)):
        wanted = list(line.lower()) if by_character else line.lower().split()
        right[sentence.recording] += [Word(text, number) for text in wanted]
        ends[sentence.recording] = max(ends.get(sentence.recording, 0.0), 1000 * (sentence.offset + sentence.duration))
    spoken = None if by_character else code_of(language)
    given: list[list[Any]] = [[] for _ in sentences]
    pairs = list(zip(tokenize_words(list(right.values()), spoken), tokenize_words(units, spoken), strict=True))
    for reference, written in tqdm(pairs, unit="recording", desc="cutting into sentences", disable=None):
        for word in process_alignment(*_align(reference, written, by_character), by_character):
            if word.main:
                given[word.seq_id].append(word)
    found = []
    for number, (sentence, line, words) in enumerate(zip(sentences, lines, given, strict=True)):
        offset = 1000 * sentence.offset
        timed = bool(words) and all(word.emission_ca is not None for word in words)
        found.append(
            Scored(
                ("" if by_character else " ").join(word.original for word in words),
                line,
                unit,
                number,
                source_length=1000 * sentence.duration,
                emission_cu=[word.emission_cu - offset for word in words] if words else None,
                emission_ca=[word.emission_ca - offset for word in words] if timed else None,
                time_to_recording_end=ends[sentence.recording] - offset if words else None,
            )
        )
    return Cut(of, ordered, units, sentences, lines, found, unit)


def _align(reference: Sequence[Any], written: Sequence[Any], by_character: bool) -> tuple[list[Any], list[Any]]:
    """As OmniSTEval's `align_sequences`, whose cells in Python take minutes for an hour of speech: row by row.

    Both texts with None in the gaps: so that the sum of similarities is highest, where a gap costs nothing. Of equal
    ways a match goes before a gap in the text that was written, and that before one in the reference.
    """
    similar, rows, columns = _similarities(reference, written, by_character)
    best = np.zeros(len(written) + 1)
    ways = np.zeros((len(reference), len(written)), np.int8)  # 0: a match, 1, 2: a gap
    for way, row in zip(ways, rows, strict=True):
        match, above = best[:-1] + similar[row, columns], best[1:].copy()
        both = np.maximum(match, above)
        best[1:] = np.maximum(np.maximum.accumulate(both), 0.0)
        left = best[:-1]
        way[:] = np.where((match >= above) & (match >= left), 0, np.where(above >= left, 1, 2))
    first: list[Any] = []
    second: list[Any] = []
    i, j = len(reference), len(written)
    while i or j:
        taken = 1 if not j else 2 if not i else int(ways[i - 1, j - 1])
        i, j = i - (taken != 2), j - (taken != 1)
        first.append(None if taken == 2 else reference[i])
        second.append(None if taken == 1 else written[j])
    return first[::-1], second[::-1]


def _similarities(
    reference: Sequence[Any], written: Sequence[Any], by_character: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """OmniSTEval's similarity of the words of two texts, (kinds, kinds), and the kind of each word in both.

    Characters are the same or not. Words share a part of their letters, but a word and a punctuation mark can't match.
    """
    from omnisteval.alignment import ALL_PUNCT

    texts = [[word.text for word in words] for words in (reference, written)]
    kinds = [list(dict.fromkeys(words)) for words in texts]
    numbers = [{text: number for number, text in enumerate(each)} for each in kinds]
    places = [np.array([number[text] for text in words], int) for number, words in zip(numbers, texts, strict=True)]
    if by_character:
        one, other = (np.array(each, object) for each in kinds)
        table = (one[:, None] == other).astype(np.float64)
    else:
        letters = {letter: k for k, letter in enumerate(set("".join(kinds[0] + kinds[1])))}
        one, other = (np.zeros((len(each), len(letters))) for each in kinds)
        for has, each in ((one, kinds[0]), (other, kinds[1])):
            for row, text in zip(has, each, strict=True):
                row[[letters[letter] for letter in text]] = 1
        shared = one @ other.T
        table = shared / np.maximum(one.sum(1)[:, None] + other.sum(1) - shared, 1)
    one, other = (np.array([text in ALL_PUNCT for text in each], bool) for each in kinds)
    table[one[:, None] ^ other] = -np.inf
    return table, *places


def _in_order(
    instances: Sequence[Instance], sentences: Sequence[Sentence], path: str | Path, segmentation: Path
) -> list[Instance]:
    """The instances as the segmentation names them. Without a source_length, one ends with its last sentence."""
    by_name: dict[str, Instance] = {}
    for instance in instances:
        name = instance.recording
        if name in by_name:
            raise SimulstError(
                f"{path}: several entries are of {name}; a log of segments is scored without --segmentation."
            )
        by_name[name] = instance
    names = list(dict.fromkeys(sentence.recording for sentence in sentences))
    if missing := [name for name in names if name not in by_name]:
        raise SimulstError(
            f"{segmentation}: names {len(missing)} recordings that {path} has not, first {missing[0]}; decode them, or "
            "leave them out."
        )
    if more := sorted(by_name.keys() - set(names)):
        raise SimulstError(
            f"{path}: has {len(more)} recordings that {segmentation} does not name, first {more[0]}; take "
            "the segmentation of these recordings."
        )
    if unknown := [name for name in names if not by_name[name].source_length]:
        ends = {name: max(1000 * (s.offset + s.duration) for s in sentences if s.recording == name) for name in unknown}
        by_name |= {name: replace(by_name[name], source_length=end) for name, end in ends.items()}
        check_milliseconds([by_name[name] for name in unknown], path)
    for sentence in sentences:
        if sentence.offset >= by_name[sentence.recording].source_length / 1000:
            logger.warning(
                "%s: %s ends after %.0f s, before its last sentences; was it decoded to its end?",
                path,
                sentence.recording,
                by_name[sentence.recording].source_length / 1000,
            )
            break
    return [by_name[name] for name in names]


def _words(instance: Instance, unit: str) -> list[Any]:
    """OmniSTEval's units, in ms. It counts spaces between characters, too; a space leaves with what follows it.

    `elapsed` adds up all computation since the recording began. Of that, a word is charged what came since the one
    before it, as OmniSTEval does for SimulEval's logs. Where the log says what each step took, it is charged that.
    """
    from omnisteval.alignment import Word
    from omnisteval.data import fix_emission_ca

    units = list(instance.prediction.strip(" ")) if unit == "char" else instance.prediction.split()
    elapsed = instance.chunk_elapsed or instance.elapsed
    words, number = [], 0
    for text in units:
        words.append(Word(text, emission_cu=instance.delays[number], emission_ca=elapsed[number] if elapsed else None))
        number += text != " "
    return fix_emission_ca(words) if elapsed and not instance.chunk_elapsed else words


def _stream_laal(
    texts: Sequence[Sequence[Any]], sentences: Sequence[Sentence], unit: str
) -> tuple[float | None, float | None]:
    """StreamLAAL 2.0 in ms (Papi et al. 2024), plain and computation-aware; None where it can't be computed."""
    from simulstream.metrics.readers import OutputWithDelays, ReferenceSentenceDefinition
    from simulstream.metrics.scorers.latency import LatencyScoringSample
    from simulstream.metrics.scorers.latency.stream_laal import StreamLaal

    by_name: dict[str, list[Any]] = {}
    for one in sentences:
        definition = ReferenceSentenceDefinition(_harmless(one.text), one.offset, one.duration)
        by_name.setdefault(one.recording, []).append(definition)
    if not any(texts):
        return None, None
    timed = all(word.emission_ca is not None for words in texts for word in words)
    samples = []
    for (name, definitions), words in zip(by_name.items(), texts, strict=True):
        plain = [word.emission_cu / 1000 for word in words]
        aware = [word.emission_ca / 1000 for word in words] if timed else plain
        text = ("" if unit == "char" else " ").join(word.text for word in words)
        samples.append(LatencyScoringSample(name, OutputWithDelays(_harmless(text), plain, aware), definitions))
    try:
        with _silence():
            scores = StreamLaal(Namespace(latency_unit=unit)).score(samples)
    except AssertionError as error:
        logger.warning("no StreamLAAL: simulstream cannot divide this text (%s).", error)
        return None, None
    return scores.ideal_latency * 1000, scores.computational_aware_latency * 1000 if timed else None


def _harmless(text: str) -> str:
    """The text with as many words and characters, but without what ends mwerSegmenter's process or its tokens."""
    return re.sub(r"###|</s>|[\t-\r]", lambda match: {"###": "＃＃＃", "</s>": "＜/s＞"}.get(match[0], "\u3000"), text)


@contextmanager
def _silence() -> Iterator[None]:
    """Inside, mwerSegmenter writes nothing: it is in C++, and writes to the process's stderr."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def _check_installed() -> None:
    root = logging.getLogger()
    ours = root.handlers[:], root.level
    try:
        import mweralign  # noqa: F401
        import omnisteval  # noqa: F401
        import simulstream  # noqa: F401
    except ImportError as error:
        raise SimulstError(
            f"whole recordings are scored by OmniSTEval, simulstream and mweralign ({error}); pip install "
            "OmniSTEval simulstream mweralign, or run tools/install.sh."
        ) from error
    finally:
        root.handlers[:], root.level = ours  # mweralign makes a program that has none log everything
