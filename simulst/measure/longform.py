"""Scores of whole recordings: OmniSTEval cuts their text at the sentences of the references, and scores these.

Average lagging of a whole recording means nothing: the ideal writer that it compares with speaks at one rate from the
first word to the last, through all pauses. So each sentence is given the words that were meant for it (Polák et al.
2025, SoftSegmenter), and lags count from its beginning.
"""

from __future__ import annotations

import gc
import logging
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulst.audio.name import recording_name
from simulst.data.segmentation import Sentence, read_lines, read_segmentation
from simulst.errors import SimulstError
from simulst.files.lock import digest
from simulst.languages import code_of, unit_of
from simulst.log.instance import Instance, check_units
from simulst.log.simuleval import check_milliseconds
from simulst.measure.latency import real_time_factor
from simulst.measure.score import compare_texts, error_rates_if_recognised, quality_of, rounded, term_scores

logger = logging.getLogger(__name__)

GAPS = "gaps.tsv"


def score_recordings(
    instances: Sequence[Instance],
    segmentation: Path,
    references: Path,
    language: str = "en",
    unit: str | None = None,
    bootstrap: int = 0,
    path: str | Path = "the log",
    source_language: str = "",
) -> dict[str, Any]:
    """Quality and latency of a log whose entries are whole recordings.

    segmentation: a YAML list of {wav, offset, duration} (seconds), as MuST-C has it; recordings are found by the names
        of their files without folder and suffix. references: a line for each of its segments.
    language, unit, bootstrap, path, source_language: as in `score_instances`.
    Returns: BLEU, chrF, error rates and term recall as `score_instances` does; LongYAAL, LongLAAL (OmniSTEval's),
        StreamLAAL (simulstream's, with the words cut by mwerSegmenter), each also with _CA (ms; None if nothing was
        written, or no elapsed times were logged): with the computation of each step alone, whatever the log adds up;
        RTF; recordings; sentences; empty, how many sentences were given no word; missing and extra, by how many units
        sentences are shorter or longer than their references, in % of all these; length_ratio; unit; test_set, a digest
        of the sentences; and if the segmentation has a `gaps.tsv` beside it, invented, how many units a minute were
        written in its gaps, where nobody speaks.
    Raises SimulstError: what `read_segmentation` raises, recordings that only the log or only the segmentation has,
        predictions that don't match their delays, OmniSTEval or simulstream missing.
    """
    from omnisteval.scoring import evaluate_instances

    unit = unit or unit_of(language)
    cut = _cut(instances, segmentation, references, language, unit, path)
    # Quality is sacreBLEU's, as OmniSTEval's is, but with intervals.
    lags, _, _ = evaluate_instances(cut.found, compute_quality=False, fix_emission_ca_flag=True)
    stream_laal = _stream_laal(cut.texts, cut.sentences, unit)
    ordered, sentences, found, lines = cut.ordered, cut.sentences, cut.found, cut.lines
    words = sum(len(instance.delays) for instance in ordered)
    wanted = [_count(line, unit) for line in lines]
    more = [_count(f.prediction, unit) - count for f, count in zip(found, wanted, strict=True)]
    all_wanted = sum(wanted)
    predictions = [f.prediction for f in found]
    terms = {instance.recording: instance.terms for instance in ordered}
    return {
        **quality_of(predictions, lines, language, bootstrap),
        **error_rates_if_recognised(predictions, lines, source_language, language),
        "LongYAAL": rounded(lags.get("long_yaal")),
        "LongLAAL": rounded(lags.get("long_laal")),
        "StreamLAAL": rounded(stream_laal[0]),
        "LongYAAL_CA": rounded(lags.get("ca_long_yaal")),
        "LongLAAL_CA": rounded(lags.get("ca_long_laal")),
        "StreamLAAL_CA": rounded(stream_laal[1]),
        "RTF": rounded(real_time_factor(ordered), 4),
        "recordings": len(ordered),
        "sentences": len(sentences),
        "empty": sum(not f.prediction.strip() for f in found),
        "missing": rounded(100 * sum(max(0, -count) for count in more) / all_wanted) if all_wanted else None,
        "extra": rounded(100 * sum(max(0, count) for count in more) / all_wanted) if all_wanted else None,
        "length_ratio": rounded(words / all_wanted) if all_wanted else None,
        "unit": unit,
        "test_set": digest(map(str, sorted((s.recording, s.offset, s.duration, s.text) for s in sentences))),
        **term_scores([terms[sentence.recording] for sentence in sentences], predictions, lines, unit),
        **_invented(ordered, segmentation.with_name(GAPS)),
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
    """The gaps that `simulst.data.talks.join` lists in gaps.tsv. Raises SimulstError: a line that is no such entry."""
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


def compare_recordings(
    baseline: Sequence[Instance],
    system: Sequence[Instance],
    segmentation: Path,
    references: Path,
    language: str = "en",
    unit: str | None = None,
    paths: tuple[str | Path, str | Path] = ("the baseline", "the system"),
) -> dict[str, Any]:
    """Is `system` better than `baseline`? The paired test of `compare`, on the sentences that the segmentation names.

    Arguments and errors are those of `score_recordings` and `compare`.
    """
    unit = unit or unit_of(language)
    one, other = (
        _cut(instances, segmentation, references, language, unit, path)
        for instances, path in zip((baseline, system), paths, strict=True)
    )
    first, second = ([found.prediction for found in cut.found] for cut in (one, other))
    return compare_texts(first, second, one.lines, language)


def sentences_of_recordings(
    instances: Sequence[Instance],
    segmentation: Path,
    references: Path,
    language: str = "en",
    unit: str | None = None,
    path: str | Path = "the log",
) -> list[tuple[str, str | None]]:
    """What was written for each sentence of recordings, and its reference. Arguments: those of `score_recordings`."""
    cut = _cut(instances, segmentation, references, language, unit or unit_of(language), path)
    return [(found.prediction, line) for found, line in zip(cut.found, cut.lines, strict=True)]


@dataclass(frozen=True)
class _Cut:
    """Recordings that are cut into sentences.

    ordered: the instances, as the segmentation names them. texts: their units, OmniSTEval's.
    sentences, lines: the segments, and their references as OmniSTEval reads them. found: what was written for each,
    OmniSTEval's.
    """

    ordered: list[Instance]
    texts: list[list[Any]]
    sentences: list[Sentence]
    lines: list[str]
    found: list[Any]


def _cut(
    instances: Sequence[Instance], segmentation: Path, references: Path, language: str, unit: str, path: str | Path
) -> _Cut:
    """Cut recordings into sentences. Arguments and errors are those of `score_recordings`."""
    _check_installed()
    from omnisteval.data import load_reference
    from omnisteval.resegment import resegment

    check_units(instances, unit, path)
    sentences = read_segmentation(segmentation, references)
    ordered = _in_order(instances, sentences, path, segmentation)
    by_character = unit == "char"
    texts = [_words(instance, unit) for instance in ordered]
    reference_words, layout, lines = load_reference(str(segmentation), str(references), by_character, False)
    spoken = None if by_character else code_of(language)
    with nothing_collected():
        found, _ = resegment(reference_words, texts, layout, lines, char_level=by_character, lang=spoken)
    return _Cut(ordered, texts, sentences, lines, found)


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Inside, Python collects no garbage of before, neither here nor in a process that is forked.

    OmniSTEval forks. If a child collects a CTranslate2 model, it waits for ever: the model waits for its threads, and
    only the parent has them.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


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

    units = list(instance.prediction.strip()) if unit == "char" else instance.prediction.split()
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
        definition = ReferenceSentenceDefinition(one.text, one.offset, one.duration)
        by_name.setdefault(one.recording, []).append(definition)
    if not any(texts):
        return None, None
    timed = all(word.emission_ca is not None for words in texts for word in words)
    samples = []
    for (name, definitions), words in zip(by_name.items(), texts, strict=True):
        plain = [word.emission_cu / 1000 for word in words]
        aware = [word.emission_ca / 1000 for word in words] if timed else plain
        text = ("" if unit == "char" else " ").join(word.text for word in words)
        samples.append(LatencyScoringSample(name, OutputWithDelays(text, plain, aware), definitions))
    try:
        scores = StreamLaal(Namespace(latency_unit=unit)).score(samples)
    except AssertionError as error:
        logger.warning("no StreamLAAL: simulstream cannot divide this text (%s).", error)
        return None, None
    return scores.ideal_latency * 1000, scores.computational_aware_latency * 1000 if timed else None


def _check_installed() -> None:
    try:
        import mweralign  # noqa: F401
        import omnisteval  # noqa: F401
        import simulstream  # noqa: F401
    except ImportError as error:
        raise SimulstError(
            f"whole recordings are scored by OmniSTEval, simulstream and mweralign ({error}); pip install "
            "OmniSTEval simulstream mweralign, or run tools/install.sh."
        ) from error
