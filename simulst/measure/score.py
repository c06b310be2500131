"""The scores of a log, ready for JSON, and the comparison of two logs."""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import regex

from simulst.errors import SimulstError
from simulst.languages import code_of, unit_of
from simulst.log.instance import Instance, check_units, digest_of_test_set
from simulst.measure.latency import LONG_METRICS, METRICS, corpus_latency

logger = logging.getLogger(__name__)

_LETTER = r"[\p{L}\p{M}\p{N}_]"
LONG_MS = 120_000  # no sentence takes as long, ms
LONG_MEDIAN_MS = 30_000  # half of a corpus's sentences are never as long, but single ones may be: up to 70 s in MuST-C


def score_instances(
    instances: Sequence[Instance],
    language: str = "en",
    unit: str | None = None,
    bootstrap: int = 0,
    path: str | Path = "the log",
    source_language: str = "",
) -> dict[str, Any]:
    """Quality and latency of one log.

    instances: the log.
    language: the target language. It determines BLEU's tokenizer and the default unit.
    unit: "word" or "char", the unit of the delays; None: the usual unit of the language.
    bootstrap: how many resamples to draw for the 95 % intervals; 0: no intervals.
    path: the name of the log in messages.
    source_language: if it is the target language, the log is one of recognition, and has error rates too.

    If there are no references (None, or all empty), latency uses the lengths of the predictions, as in SimulEval.
    Returns: plain values, 3 decimals (RTF 4). BLEU, BLEU_signature, chrF, chrF_signature, with `bootstrap` also
        *_low and *_high (None without references, or for one sentence); for recognition WER and CER (%, None if the
        references have no words; WER also if the language has no spaces); METRICS and METRICS with _CA (ms; AP has no
        unit), RTF, as in `corpus_latency` (None if nothing was written, or no elapsed times were logged); sentences;
        empty, how many of them have an empty prediction; with terms in the log, terms and term_recall (`term_scores`);
        length_ratio, predicted / reference units (None without
        references); unit; test_set (`digest_of_test_set`).
    Raises SimulstError: no instances, an unknown unit or language, predictions that don't match their delays,
        references that some instances have and others lack.
    """
    unit = unit or unit_of(language)
    if unit not in ("word", "char"):
        raise SimulstError(f"unit {unit!r} is not known; choose word or char.")
    if not instances:
        raise SimulstError(f"{path}: no sentences to score.")
    check_units(instances, unit, path)
    if unknown := [i.index for i in instances if not i.source_length]:
        raise SimulstError(
            f"{path}, index {unknown[0]}: has no source_length, which lags need; add it, in ms, or score "
            "whole recordings, with --segmentation and --references."
        )
    warn_of_recordings(instances, path)
    references = _references(instances, path)
    if not references:
        logger.warning("%s: has no references; no BLEU and chrF, and lags use the lengths of the predictions.", path)
        instances = [replace(i, reference=None) for i in instances]
    elif bootstrap > 1 and len(instances) == 1:
        logger.warning("%s: one sentence has no 95 %% interval.", path)
    # Count the reference like the prediction. (SimulEval's |Y*| counts empty texts and spaces differently.)
    reference_units = sum(len(replace(i, prediction=i.reference or "").units(unit)) for i in instances)
    prediction_units = sum(len(i.units(unit)) for i in instances)
    latency = corpus_latency(instances, unit)
    predictions = [i.prediction for i in instances]
    return {
        **quality_of(predictions, references, language, bootstrap),
        **error_rates_if_recognised(predictions, references, source_language, language),
        **{name: rounded(value, 4 if name == "RTF" else 3) for name, value in latency.items()},
        "sentences": len(instances),
        "empty": sum(not i.delays for i in instances),
        "length_ratio": rounded(prediction_units / reference_units) if reference_units else None,
        "unit": unit,
        "test_set": digest_of_test_set(instances),
        **term_scores([i.terms for i in instances], predictions, [i.reference or "" for i in instances], unit),
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


def term_scores(
    terms: Sequence[Sequence[str]], predictions: Sequence[str], references: Sequence[str], unit: str
) -> dict[str, Any]:
    """How many of the terms that stand in the references stand in the predictions; nothing without terms.

    terms: those of each sentence.

    A sentence that has a term twice must write it twice. Upper and lower case are one. Returns: terms, their number in
    the references; term_recall, the share that was written (None if there are none).
    """
    if not any(terms):
        return {}
    wanted = found = 0
    for own, prediction, reference in zip(terms, predictions, references, strict=True):
        for term in {term.lower() for term in own}:
            # A letter beside it is part of another word, but not where words have no spaces. re's \w lacks the vowel
            # signs of Hindi and other languages.
            escaped = regex.escape(term)
            whole = rf"(?<!{_LETTER}){escaped}(?!{_LETTER})" if unit == "word" else escaped
            pattern = regex.compile(whole, regex.IGNORECASE)
            times = len(pattern.findall(reference))
            wanted += times
            found += min(times, len(pattern.findall(prediction)))
    return {"terms": wanted, "term_recall": rounded(found / wanted) if wanted else None}


def compare(
    baseline: Sequence[Instance],
    system: Sequence[Instance],
    language: str = "en",
    samples: int = 10_000,
    unit: str | None = None,
    paths: tuple[str | Path, str | Path] = ("the baseline", "the system"),
) -> dict[str, Any]:
    """Is `system` better than `baseline`? A paired test on the sentences of two logs.

    baseline: the log of the baseline.
    system: the log of the system.
    language: the target language, which determines BLEU's tokenizer.
    samples: as in `paired_significance`.
    unit: as in `score_instances`.
    paths: the names of both logs in messages.
    Returns: for BLEU and chrF *_baseline, *_system, *_difference (system - baseline), the 95 % interval of it (*_low,
        *_high), *_p and *_signature; sentences.

    Raises SimulstError: a log that is empty, has one sentence only, or has no references; logs with different indices
        or references; predictions that do not match their delays.
    """
    for instances, path in zip((baseline, system), paths, strict=True):
        check_units(instances, unit or unit_of(language), path)
    first, second = ({i.index: i for i in instances} for instances in (baseline, system))
    if unpaired := sorted(first.keys() ^ second.keys()):
        where = "baseline" if unpaired[0] in first else "system"
        raise SimulstError(
            f"{len(unpaired)} sentences are in one log only (index {unpaired[0]} only in the {where}'s); "
            f"compare runs over the same data."
        )
    for index in sorted(first):
        if first[index].reference != second[index].reference:
            raise SimulstError(f"index {index}: the logs have different references; compare runs over the same data.")
    references = _references([first[index] for index in sorted(first)], paths[0])
    if first and not references:
        raise SimulstError(f"{paths[0]}: has no references; BLEU and chrF need them, so compare logs that have them.")
    return compare_texts(
        [first[index].prediction for index in sorted(first)],
        [second[index].prediction for index in sorted(first)],
        references,
        language,
        samples,
    )


def compare_texts(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str],
    language: str = "en",
    samples: int = 10_000,
) -> dict[str, Any]:
    """What `compare` returns, of the texts of two systems. Errors are those of `paired_significance`."""
    from simulst.measure.quality import paired_significance

    result: dict[str, Any] = {}
    for metric, difference in paired_significance(baseline, system, references, language, samples).items():
        result[f"{metric}_baseline"] = rounded(difference.baseline)
        result[f"{metric}_system"] = rounded(difference.system)
        result[f"{metric}_difference"] = rounded(difference.system - difference.baseline)
        result[f"{metric}_low"], result[f"{metric}_high"] = rounded(difference.low), rounded(difference.high)
        result[f"{metric}_p"] = round(difference.p, 4)
        result[f"{metric}_signature"] = difference.signature
    result["sentences"] = len(references)
    return result


def format_scores(scores: dict[str, Any]) -> str:
    """The result of `score_instances` as a readable table. It may hold that of `compare` as "against"."""
    lines = []
    for name in ("BLEU", "chrF"):
        low, high = scores.get(f"{name}_low"), scores.get(f"{name}_high")
        interval = "" if low is None else f"  95 %: {low:.2f} to {high:.2f}"
        lines.append(f"{name:<12}{_cell(scores[name], 2)}{interval}")
    if scores.get("COMET") is not None:
        one = {
            key: scores.get(name) for key, name in (("score", "COMET"), ("low", "COMET_low"), ("high", "COMET_high"))
        }
        for model, found in scores.get("COMET_models", {scores["COMET_model"]: one}).items():
            bounds = "" if found["low"] is None else f"  95 %: {found['low']:.4f} to {found['high']:.4f}"
            lines.append(f"{'COMET':<12}{_cell(found['score'], 4)}{bounds}  {model}")
    lines += [f"{name:<12}{_cell(scores[name], 2)} %" for name in ("WER", "CER") if scores.get(name) is not None]
    lines.append(f"{'':<12}{'plain':>10}{'with computation':>18}")
    for name in (name for name in (*METRICS, *LONG_METRICS) if name in scores):
        digits = 3 if name == "AP" else 1
        lines.append(f"{name:<12}{_cell(scores[name], digits)}{_cell(scores[f'{name}_CA'], digits):>18}")
    slow = "  above 1: it can't keep up with speech on this machine" if (scores["RTF"] or 0) > 1 else ""
    lines.append(f"{'RTF':<12}{_cell(scores['RTF'], 3)}{slow}")
    lines.append(f"{'length ratio':<12}{_cell(scores['length_ratio'], 3)}")
    lines += [f"{name:<12}{_cell(scores[name], 2)} %" for name in ("missing", "extra") if scores.get(name) is not None]
    if scores.get("invented") is not None:
        lines.append(f"{'invented':<12}{_cell(scores['invented'], 2)} a minute where nobody speaks")
    if "terms" in scores:
        lines.append(
            f"{'term recall':<12}{_cell(scores['term_recall'], 3)}  of {scores['terms']} terms in the references"
        )
    recordings = f"{scores['recordings']} recordings, " if "recordings" in scores else ""
    lines.append(
        f"{recordings}{scores['sentences']} sentences, {scores['empty']} with an empty prediction; "
        f"lags in ms, counted by the {scores['unit']}."
    )
    if "against" in scores:
        for name, digits in (("BLEU", 2), ("chrF", 2), ("COMET", 4)):
            if f"{name}_p" not in scores["against"]:
                continue
            keys = ("difference", "baseline", "low", "high", "p")
            difference, baseline, low, high, p = (scores["against"][f"{name}_{key}"] for key in keys)
            interval = f"95 %: {low:+.{digits}f} to {high:+.{digits}f}"
            lines.append(
                f"{name}: {difference:+.{digits}f} against {baseline:.{digits}f} ({interval}, p = {p:.3f}, paired "
                "randomisation)"
            )
    lines += [f"{name}: {scores[f'{name}_signature']}" for name in ("BLEU", "chrF") if scores[f"{name}_signature"]]
    return "\n".join(lines)


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


def quality_of(predictions: Sequence[str], references: Sequence[str], language: str, bootstrap: int) -> dict[str, Any]:
    """BLEU and chrF as `score_instances` gives them."""
    from simulst.measure.quality import bleu, chrf

    scores: dict[str, Any] = {}
    for name in ("BLEU", "chrF"):
        quality = None
        if references and name == "BLEU":
            quality = bleu(predictions, references, language, bootstrap)
        elif references:
            quality = chrf(predictions, references, bootstrap)
        scores[name] = rounded(quality.score) if quality else None
        if bootstrap > 1:
            scores[f"{name}_low"] = rounded(quality.low) if quality else None
            scores[f"{name}_high"] = rounded(quality.high) if quality else None
        scores[f"{name}_signature"] = quality.signature if quality else None
    return scores


def error_rates_if_recognised(
    predictions: Sequence[str], references: Sequence[str], source_language: str, language: str
) -> dict[str, Any]:
    """WER and CER as `score_instances` gives them; nothing if the languages differ, or the source's is not known."""
    from simulst.measure.quality import error_rates

    if not source_language or code_of(source_language) != code_of(language):
        return {}
    rates = error_rates(predictions, references, language) if references else (None, None)
    return dict(zip(("WER", "CER"), map(rounded, rates), strict=True))


def rounded(value: float | None, digits: int = 3) -> float | None:
    """For JSON, which knows no NaN either."""
    return None if value is None or math.isnan(value) else round(float(value), digits)


def _cell(value: float | None, digits: int) -> str:
    return f"{'-' if value is None else f'{value:.{digits}f}':>10}"
