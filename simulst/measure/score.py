"""`score`: a log's quality and latency, ready for JSON; `compare`: the test of two logs."""

from __future__ import annotations

import logging
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import regex

from simulst.background import NOTHING, known_of, read_backgrounds
from simulst.errors import SimulstError
from simulst.files.table import read_table
from simulst.languages import AUTO, code_of, unit_of
from simulst.log.instance import Instance, check_units, digest_of_test_set
from simulst.measure.comet import Comet, segments_of
from simulst.measure.latency import corpus_latency
from simulst.measure.longform import Cut, Sentences, cut_recordings, figures_of
from simulst.measure.metric import BUILT_IN, KNOWN, OWN, Metric, Texts, description, rounded
from simulst.measure.segmentation import read_lines

if TYPE_CHECKING:
    from simulst.measure.quality import Difference  # it imports sacreBLEU, which takes a while

logger = logging.getLogger(__name__)

_LETTER = r"[\p{L}\p{M}\p{N}_]"
LONG_MS = 120_000  # no sentence takes as long, ms
LONG_MEDIAN_MS = 30_000  # half of a corpus's sentences are never as long, but single ones may be: up to 70 s in MuST-C


@dataclass(frozen=True)
class Asked:
    """What is scored beside the usual, and what is known of the data.

    sentences: of a log whose entries are whole recordings.
    sources: transcript for metrics that want it: a line for each sentence in the order of the log (for recordings, for
        each segment), or a data directory's text.LANG.
    metrics: of one's own. comet: models, which need sources.
    context: a table whose terms' recall is scored; None: those of the log.
    """

    sentences: Sentences | None = None
    sources: Path | None = None
    metrics: tuple[Metric, ...] = ()
    comet: Comet | None = None
    context: Path | None = None


USUAL = Asked()


def score(
    instances: Sequence[Instance],
    language: str = "en",
    unit: str | None = None,
    bootstrap: int = 0,
    path: str | Path = "the log",
    source_language: str = "",
    asked: Asked = USUAL,
) -> dict[str, Any]:
    """Quality and latency of one log, whose entries are single sentences or whole recordings.

    instances: the log.
    language: the target language. It determines BLEU's tokenizer and the default unit.
    unit: "word" or "char", the unit of the delays; None: the usual unit of the language.
    bootstrap: how many resamples to draw for the 95 % intervals; 0: no intervals.
    path: the name of the log in messages.
    source_language: if it is the target language, the log is one of recognition, and has error rates too.

    If there are no references (None, or all empty), latency uses the lengths of the predictions, as in SimulEval.
    Returns: plain values by the keys of `simulst.measure.metric.BUILT_IN`, None where there is nothing to measure, and

        <key>_low, _high, _signature    of quality: the 95 % interval, with `bootstrap`; sacreBLEU's signature
        sentences, empty                how many there are, and how many got no word
        unit, test_set                  of lags; a digest of what was translated
        terms                           how many stand in the references, with terms in the log or the context
        recordings                      how many; these have lags of their own (OmniSTEval's and simulstream's)
        COMET_model, COMET_models       with COMET
        metrics                         what metrics of one's own are

    Raises SimulstError: no instances, an unknown unit or language, predictions that don't match their delays,
        references that some instances have and others lack; for recordings, what `read_segmentation` raises,
        recordings that only the log or only the segmentation has, OmniSTEval or simulstream missing; what the metrics
        raise.
    """
    from simulst.measure.quality import error_rates

    unit = unit or unit_of(language)
    if asked.context is not None:
        instances = _with_terms(instances, asked.context, source_language, language)
    texts, cut = _texts(instances, language, unit, path, asked)
    figures = _figures(instances, texts, path, bootstrap) if cut is None else figures_of(cut)
    scores = _quality(texts, asked.metrics, bootstrap)
    if source_language not in ("", AUTO) and code_of(source_language) == code_of(language):
        rates = error_rates(texts.predictions, texts.references, language) if texts.references else (None, None)
        scores |= dict(zip(("WER", "CER"), map(rounded, rates), strict=True))
    scores |= {**figures, **term_scores(texts)}
    if asked.comet is not None:
        scores |= asked.comet.summary(texts, bootstrap)
    return scores


def texts_of(
    instances: Sequence[Instance],
    language: str,
    unit: str | None = None,
    path: str | Path = "the log",
    asked: Asked = USUAL,
) -> Texts:
    """What was written for each sentence of a log, and its reference. Arguments and errors: those of `score`."""
    return _texts(instances, language, unit or unit_of(language), path, asked)[0]


def _texts(
    instances: Sequence[Instance], language: str, unit: str, path: str | Path, asked: Asked
) -> tuple[Texts, Cut | None]:
    """The texts; of whole recordings, also how these were cut into sentences."""
    sources = asked.sources
    if asked.sentences is not None:
        cut = cut_recordings(instances, asked.sentences, language, unit, path)
        return _with_sources(cut.written(language), sources, path), cut
    if unit not in ("word", "char"):
        raise SimulstError(f"unit {unit!r} is not known; choose word or char.")
    if not instances:
        raise SimulstError(f"{path}: no sentences to score.")
    check_units(instances, unit, path)
    ordered = sorted(instances, key=lambda instance: instance.index)
    texts = Texts(
        tuple(instance.prediction for instance in ordered),
        tuple(_references(ordered, path)),
        language,
        unit,
        names=tuple(instance.index for instance in ordered),
        terms=tuple(instance.terms for instance in ordered),
        strata=tuple(instance.stratum for instance in ordered),
    )
    if sources is None or not sources.name.startswith("text."):
        return _with_sources(texts, sources, path), None
    lines = read_table(sources, allow_empty=True)
    if lacking := [instance.name for instance in ordered if instance.name not in lines]:
        raise SimulstError(
            f"{sources}: has no line of {lacking[0]}, which {path} has; give these sentences' transcript."
        )
    return replace(texts, sources=tuple(lines[instance.name] for instance in ordered)), None


def _with_sources(texts: Texts, sources: Path | None, path: str | Path) -> Texts:
    if sources is None:
        return texts
    lines = read_lines(sources)
    if len(lines) != len(texts.predictions):
        raise SimulstError(
            f"{sources}: {len(lines)} lines, but {len(texts.predictions)} segments; give a line for each."
        )
    return replace(texts, sources=tuple(lines))


def _figures(instances: Sequence[Instance], texts: Texts, path: str | Path, bootstrap: int) -> dict[str, Any]:
    """Of a log whose entries are sentences: lags, and what is counted."""
    unit = texts.unit
    if unknown := [i.index for i in instances if not i.source_length]:
        raise SimulstError(
            f"{path}, index {unknown[0]}: has no source_length, which lags need; add it, in ms, or score "
            "whole recordings, with --segmentation and --references."
        )
    warn_of_recordings(instances, path)
    if not texts.references:
        logger.warning("%s: has no references; no BLEU and chrF, and lags use the lengths of the predictions.", path)
        instances = [replace(i, reference=None) for i in instances]
    elif bootstrap > 1 and len(instances) == 1:
        logger.warning("%s: one sentence has no 95 %% interval.", path)
    # Count the reference like the prediction. (SimulEval's |Y*| counts empty texts and spaces differently.)
    wanted = sum(len(replace(i, prediction=i.reference or "").units(unit)) for i in instances)
    written = sum(len(i.units(unit)) for i in instances)
    return {
        **{key: rounded(value, KNOWN[key].kept) for key, value in corpus_latency(instances, unit).items()},
        "sentences": len(instances),
        "empty": sum(not i.delays for i in instances),
        "length_ratio": rounded(written / wanted) if wanted else None,
        "unit": unit,
        "test_set": digest_of_test_set(instances),
    }


def warn_of_recordings(instances: Sequence[Instance], path: str | Path) -> None:
    """Warn of a log, in the file `path`, whose entries seem to be whole recordings."""
    lengths = [instance.source_length for instance in instances]
    longest, middle = max(lengths), statistics.median(lengths)
    if longest > LONG_MS or middle > LONG_MEDIAN_MS:
        logger.warning(
            "%s: the entries seem to be whole recordings: the longest takes %.0f s, and half of them %.0f s or more; "
            "AL, LAAL, AP and DAL of recordings mean nothing: score them with --segmentation and --references.",
            path,
            longest / 1000,
            middle / 1000,
        )


def _with_terms(instances: Sequence[Instance], context: Path, source: str, target: str) -> list[Instance]:
    """The instances with the terms that a table has for them. Raises SimulstError: a broken table."""
    known = read_backgrounds(context)
    found = []
    for instance in instances:
        own = known_of(known, (instance.name, instance.recording)) or NOTHING
        found.append(replace(instance, terms=list(own.between(source, target).target_terms)))
    return found


def term_scores(texts: Texts) -> dict[str, Any]:
    """How many of the terms that stand in the references stand in the predictions; nothing without terms.

    A sentence that has a term twice must write it twice. Upper and lower case are one. Returns: terms, their number in
    the references; term_recall, the share that was written (None if there are none).
    """
    if not any(texts.terms):
        return {}
    wanted = found = 0
    references = texts.references or ("",) * len(texts.predictions)
    for own, prediction, reference in zip(texts.terms, texts.predictions, references, strict=True):
        for term in {term.lower() for term in own}:
            # A letter beside it is part of another word, but not where words have no spaces. re's \w lacks the vowel
            # signs of Hindi and other languages.
            escaped = regex.escape(term)
            whole = rf"(?<!{_LETTER}){escaped}(?!{_LETTER})" if texts.unit == "word" else escaped
            pattern = regex.compile(whole, regex.IGNORECASE)
            times = len(pattern.findall(reference))
            wanted += times
            found += min(times, len(pattern.findall(prediction)))
    return {"terms": wanted, "term_recall": rounded(found / wanted) if wanted else None}


def _quality(texts: Texts, own: Sequence[Metric], bootstrap: int) -> dict[str, Any]:
    """BLEU, chrF and metrics of one's own, with intervals and signatures. None: there are no references."""
    from simulst.measure.quality import judge

    scores: dict[str, Any] = {}
    for metric in (*BUILT_IN, *own):
        if metric.corpus is None and metric.segments is None:
            continue
        found = judge(metric, texts, bootstrap) if texts.references or metric.segments else None
        scores[metric.key] = rounded(found.score, metric.kept) if found else None
        if bootstrap > 1:
            scores[f"{metric.key}_low"] = rounded(found.low, metric.kept) if found else None
            scores[f"{metric.key}_high"] = rounded(found.high, metric.kept) if found else None
        if metric.corpus is not None:
            scores[f"{metric.key}_signature"] = found.signature if found else None
    return {**scores, OWN: {metric.key: description(metric) for metric in own}} if own else scores


def compare(
    baseline: Sequence[Instance],
    system: Sequence[Instance],
    language: str = "en",
    samples: int = 10_000,
    unit: str | None = None,
    paths: tuple[str | Path, str | Path] = ("the baseline", "the system"),
    asked: Asked = USUAL,
) -> dict[str, Any]:
    """Is `system` better than `baseline`? A paired test on the sentences of two logs.

    language, unit, asked: as in `score`.
    samples: as in `paired`.
    paths: the names of both logs in messages.
    Returns: for BLEU, chrF, metrics of one's own and COMET *_baseline, *_system, *_difference (system - baseline), the
        95 % interval of it (*_low, *_high), *_p and sacreBLEU's *_signature; sentences.

    Raises SimulstError: a log that is empty, has one sentence only, or has no references; logs with different indices
        or references; predictions that do not match their delays; what the metrics raise.
    """
    from simulst.measure.quality import mean_difference, paired

    first, second = (
        texts_of(instances, language, unit, path, asked)
        for instances, path in zip((baseline, system), paths, strict=True)
    )
    if unpaired := sorted({*first.names} ^ {*second.names}):
        where = "baseline" if unpaired[0] in first.names else "system"
        raise SimulstError(
            f"{len(unpaired)} sentences are in one log only (index {unpaired[0]} only in the {where}'s); "
            f"compare runs over the same data."
        )
    for path, texts in zip(paths, (first, second), strict=True):
        if not texts.references:
            raise SimulstError(f"{path}: has no references; BLEU and chrF need them, so compare logs that have them.")
    for name, reference, same in zip(first.names, first.references, second.references, strict=True):
        if reference != same:
            raise SimulstError(f"index {name}: the logs have different references; compare runs over the same data.")
    result: dict[str, Any] = {}
    for metric in (*BUILT_IN, *asked.metrics):
        if metric.corpus is not None or metric.segments is not None:
            result |= difference_scores(metric, paired(metric, first, second, samples))
    if asked.comet is not None:
        model = replace(asked.comet, models=asked.comet.models[:1])
        one, other = (next(iter(model.scores(segments_of(texts)).values())) for texts in (first, second))
        result |= difference_scores(KNOWN["COMET"], mean_difference(one, other, samples))
    return {**result, "sentences": len(first.predictions)}


def difference_scores(metric: Metric, found: Difference) -> dict[str, Any]:
    """The test of two systems by a metric, with the keys of `compare`."""
    values = (found.baseline, found.system, found.system - found.baseline, found.low, found.high)
    names = ("baseline", "system", "difference", "low", "high")
    rows: dict[str, Any] = {
        f"{metric.key}_{name}": rounded(value, metric.kept) for name, value in zip(names, values, strict=True)
    }
    rows[f"{metric.key}_p"] = round(found.p, 4)
    return {**rows, f"{metric.key}_signature": found.signature} if found.signature else rows


def _references(instances: Sequence[Instance], path: str | Path) -> list[str]:
    """The references, in order; an empty list if there are none, or only empty ones.

    Raises SimulstError: some instances have a reference and others have none.
    """
    known = [i.reference for i in instances if i.reference is not None]
    if not any(reference.strip() for reference in known):
        return []
    if lacking := [i.index for i in instances if i.reference is None]:
        raise SimulstError(
            f"{path}, index {lacking[0]}: has no reference (null), like {len(lacking)} of {len(instances)} sentences; "
            "give a reference for all sentences, or for none."
        )
    if empty := [i.index for i in instances if not (i.reference or "").strip()]:
        logger.warning("%s: empty references: %d, first of index %d.", path, len(empty), empty[0])
    return known
