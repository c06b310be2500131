"""The verdict on a finding: holds, does not hold, or not decided. local/findings/README.md states the rule for users.

The p-value of a finding is two-sided, of the hypothesis that the difference equals the margin: twice the share of the
resamples on the rarer side of the margin. Several trainings are tested one by one, and the largest p counts: what is
concluded is true of each of them (an intersection-union test; Berger 1982). The findings of a page are one family,
corrected by Holm's method.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from pathlib import Path

import numpy as np

from findings.compare import difference
from findings.declared import Finding, load_findings
from findings.figures import Figures, Run, figures_of, find_training
from findings.statistics import holm
from published.section import Decided, Verdict
from simulst.errors import SimulstError

Side = dict[str, Run]
"""The runs of a side in one training, by label."""

LEVEL = 0.05
SAMPLES = 10_000
SEEDS_NEEDED = 2


@dataclass(frozen=True)
class Measured:
    """A tested difference, a minus b.

    difference, low, high: the mean over the trainings, with its 95 % interval.
    each: the difference of each training.
    p_holds, p_fails: one-sided p-values of what speaks for the finding and against it, the largest of the trainings.
    levels, bound: as in `compare.Difference`.
    """

    difference: float
    low: float
    high: float
    each: tuple[float, ...]
    p_holds: float
    p_fails: float
    levels: tuple[float, float] | None = None
    bound: int | None = None

    @property
    def p(self) -> float:
        """Two-sided, of the finding alone."""
        return min(1.0, 2 * min(self.p_holds, self.p_fails))


@dataclass(frozen=True)
class Outcome:
    """The result for a finding.

    reason: why it was not tested; or empty.
    a, b: labels of the runs. missing: patterns that no run has.
    trainings: number of trainings that were compared.
    measured: the difference; None if there is none.
    p: corrected for all tests of the page; None if it was not tested.
    """

    finding: Finding
    verdict: Verdict
    reason: str = ""
    a: tuple[str, ...] = ()
    b: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    trainings: int = 0
    measured: Measured | None = None
    p: float | None = None


def tested(files: Sequence[str | Path], trainings: Sequence[Path], samples: int = SAMPLES) -> list[Decided]:
    """The findings of files with what was found, as results keep it. Raises SimulstError: as both calls."""
    papers = load_findings(files)
    named = [(paper, finding) for paper, findings in papers.items() for finding in findings]
    outcomes = decide([finding for _, finding in named], trainings, samples)
    return [as_result(paper, outcome) for (paper, _), outcome in zip(named, outcomes, strict=True)]


def as_result(paper: str, outcome: Outcome) -> Decided:
    """An outcome as plain values. paper: its name."""
    finding, found = outcome.finding, outcome.measured
    names = ("id", "section", "sentence", "kind", "direction", "margin", "lag", "a", "b", "command")
    return Decided(
        paper,
        **{name: getattr(finding, name) for name in names},
        verdict=outcome.verdict,
        a_runs=outcome.a,
        b_runs=outcome.b,
        trainings=outcome.trainings,
        difference=_known(found, "difference"),
        low=_known(found, "low"),
        high=_known(found, "high"),
        p=outcome.p,
        each=found.each if found else (),
        levels=found.levels if found else None,
        apart=found is not None and found.bound is not None,
        reason=outcome.reason,
        missing=outcome.missing,
    )


def _known(found: Measured | None, name: str) -> float | None:
    value = getattr(found, name, math.nan)
    return value if math.isfinite(value) else None


def decide(findings: Sequence[Finding], trainings: Sequence[Path], samples: int = SAMPLES) -> list[Outcome]:
    """Test findings on the runs of one training, or of several trainings that differ in their seeds.

    trainings: folders, each with the runs of one training; all are of the same test set.
    samples: how many resamples to draw.

    Raises SimulstError: a training has no finished run, or the weights of another one; runs of a side have the same
        label; the runs are of different test sets; a log is broken.
    """
    found = [find_training(folder) for folder in trainings]
    languages = {run.language for runs in found for run in runs}
    asked = [finding for finding in findings if any(map(finding.is_for, languages))]
    sides = {f.id: [(_matching(f, f.a, runs), _matching(f, f.b, runs)) for runs in found] for f in asked}
    named = [run for pairs in sides.values() for pair in pairs for side in pair for run in side.values()]
    used = {run.folder: run for run in named}
    _check_weights([[run for run in runs if run.folder in used] for runs in found])
    lags = sorted({finding.lag for finding in asked})
    figures = dict(zip(used, figures_of(list(used.values()), lags, samples), strict=True))
    return _corrected(
        [
            _outcome(finding, sides[finding.id], figures)
            if finding.id in sides
            else Outcome(finding, "for other languages")
            for finding in findings
        ]
    )


def _matching(finding: Finding, patterns: Sequence[str], runs: Sequence[Run]) -> Side:
    """The runs that a side of a finding names. Raises SimulstError: two of them have the same label."""
    matched: Side = {}
    for run in runs:
        if finding.is_for(run.language) and any(_matches(run, pattern) for pattern in patterns):
            if run.label in matched:
                raise SimulstError(
                    f"{matched[run.label].folder} and {run.folder} are both called {run.label}; give --runs folders "
                    "of one test set and language pair, or write a folder into the finding, as in "
                    f"'folder/{run.label}'."
                )
            matched[run.label] = run
    return matched


def _matches(run: Run, pattern: str) -> bool:
    return _wild(run, pattern) is not None


def _missing(finding: Finding, pair: tuple[Side, Side]) -> list[str]:
    """The patterns that no run of a training has."""
    sides = zip((finding.a, finding.b), pair, strict=True)
    return [p for patterns, side in sides for p in patterns if not any(_matches(run, p) for run in side.values())]


def _check_weights(trainings: Sequence[Collection[Run]]) -> None:
    """Raise SimulstError if a training is there twice."""
    folders = [run.folder.resolve() for runs in trainings for run in runs]
    if twice := [folder for folder, times in Counter(folders).items() if times > 1]:
        raise SimulstError(f"{twice[0]}: is in two of the trainings; give each --runs other runs.")
    seen: dict[tuple[str, str], Run] = {}
    for runs in trainings:
        for run in runs:
            first = seen.get((run.label, run.weights))
            if first is not None and run.weights:
                raise SimulstError(
                    f"{first.folder} and {run.folder} have the same weights; give runs of trainings with other seeds."
                )
        seen |= {(run.label, run.weights): run for run in runs}


def _outcome(finding: Finding, pairs: Sequence[tuple[Side, Side]], figures: Mapping[Path, Figures]) -> Outcome:
    """The test of one finding, before the correction. pairs: both sides in each training."""
    missing = [_missing(finding, pair) for pair in pairs]
    whole = [pair for pair, lacking in zip(pairs, missing, strict=True) if not lacking]
    if not whole:
        fewest = min(missing, key=len)
        return Outcome(finding, "runs missing", missing=tuple(fewest))
    labels_a, labels_b = (tuple(side) for side in whole[0])
    outcome = Outcome(finding, "not decided", a=labels_a, b=labels_b, trainings=len(whole))
    if lacking := sorted({pattern for patterns in missing for pattern in patterns}):
        runs = ", ".join(f"`{pattern}`" for pattern in lacking)
        count = len(pairs) - len(whole)
        return replace(outcome, reason=f"runs are missing in {count} of {len(pairs)} trainings: {runs}")
    differing = {label for a, b in whole for label in (a.keys() ^ {*labels_a}) | (b.keys() ^ {*labels_b})}
    if differing:
        return replace(outcome, reason=f"the trainings have different runs ({', '.join(sorted(differing))})")
    if finding.kind in ("quality", "lag", "cost", "length") and (reason := _unlike(finding, *whole[0])):
        return replace(outcome, reason=reason)
    if finding.kind.endswith("_range") and min(len(labels_a), len(labels_b)) < 2:
        return replace(outcome, reason="a range takes two runs of each side")
    of_runs = [
        ([figures[run.folder] for run in a.values()], [figures[run.folder] for run in b.values()]) for a, b in whole
    ]
    found = measure(finding, of_runs)
    if of_runs[0][0][0].sentences == 1:
        return replace(outcome, reason="there is one sentence, and a test needs several")
    if found is None:
        return replace(outcome, reason=_unmeasured(finding, of_runs))
    if finding.needs_seeds and len(whole) < SEEDS_NEEDED:
        reason = f"it is about training, and there is one training; {SEEDS_NEEDED} with different seeds are needed"
        return replace(outcome, measured=found, reason=reason)
    return replace(outcome, measured=found)


def _unlike(finding: Finding, a: Side, b: Side) -> str:
    """Why the means of both sides can't be compared; or empty.

    If there are several runs, what the wildcards stand for must be the same on both sides: the means over k = 1 and 2
    and over k = 2 and 3 differ for another reason than the finding's.
    """
    if len(a) != len(b):
        return f"{len(a)} runs stand against {len(b)}, so their means can't be compared"
    if len(a) == 1:
        return ""
    of_a, of_b = (
        Counter(next(wild for p in patterns if (wild := _wild(run, p)) is not None) for run in side.values())
        for side, patterns in ((a, finding.a), (b, finding.b))
    )
    if of_a == of_b:
        return ""
    return f"the runs are not of the same kinds ({', '.join(a)} against {', '.join(b)})"


def _wild(run: Run, pattern: str) -> tuple[str, ...] | None:
    """What the wildcards of a pattern stand for in a run; None if the pattern does not match.

    What follows the last slash is compared with the label, so that a pattern without one knows no folders.
    """
    folders, slash, label = pattern.rpartition("/")
    found = _regex(label).fullmatch(run.label)
    if not found or not slash:
        return found.groups() if found else None
    above = _regex(folders, ".*/").fullmatch(run.path.rpartition("/")[0])
    return (*above.groups(), *found.groups()) if above else None


@functools.cache
def _regex(pattern: str, before: str = "") -> re.Pattern[str]:
    """Of a pattern, with a group for each shell wildcard. before: a regular expression that stands before it."""
    parts = re.split(r"(\*|\?|\[!?\]?[^]]*\])", pattern)  # every second one is a wildcard
    regex = "".join(f"({translate(part)[:-2]})" if number % 2 else re.escape(part) for number, part in enumerate(parts))
    return re.compile(before + regex, re.DOTALL)


def _unmeasured(finding: Finding, trainings: Sequence[tuple[Sequence[Figures], Sequence[Figures]]]) -> str:
    """Why there is no difference to test."""
    runs = [run for pair in trainings for side in pair for run in side]
    if finding.kind == "length":
        return "the references are empty"
    lags = [run.lags[finding.lag][0] for run in runs]
    costs = [run.rtf[0] for run in runs] if finding.kind == "cost_at_lag" else []
    if finding.up_to is not None and np.all(np.isfinite([*lags, *costs])):
        return f"the two sides have no common lag up to {finding.up_to:g} ms"
    return "a run wrote nothing, or its log has no computation times"


def measure(finding: Finding, trainings: Sequence[tuple[Sequence[Figures], Sequence[Figures]]]) -> Measured | None:
    """Test the difference in each training; None if a figure is missing.

    trainings: the figures of both sides, for each training.
    """
    found = [difference(finding, a, b) for a, b in trainings]
    means = np.mean([one.values for one in found], axis=0)
    if np.isnan(means[0]):
        return None
    low, high = np.nanpercentile(means[1:], [2.5, 97.5])
    shares = [one_sided(one.values[1:], finding.direction, finding.margin, one.bound) for one in found]
    levels = [one.levels for one in found if one.levels]
    bounds = {one.bound for one in found if one.bound is not None}
    bound = None if not bounds else bounds.pop() if len(bounds) == 1 else 0
    return Measured(
        float(means[0]),
        float(low),
        float(high),
        tuple(float(one.values[0]) for one in found),
        p_holds=max(p_holds for p_holds, _ in shares),
        p_fails=max(p_fails for _, p_fails in shares),
        levels=(min(low for low, _ in levels), max(high for _, high in levels)) if levels else None,
        bound=bound,
    )


def one_sided(resampled: np.ndarray, direction: str, margin: float, bound: int | None = None) -> tuple[float, float]:
    """The p-values of what speaks for a finding and against it: smoothed shares of the resamples that contradict it.

    resampled: differences; NaN contradicts everything. direction, margin: as in `Finding`. bound: as in `Difference`.
    """

    def above(limit: float) -> float:
        """Of: the difference is more than the limit."""
        return 1.0 if bound in (0, -1) else (1 + np.sum(~(resampled > limit))) / (1 + len(resampled))

    def below(limit: float) -> float:
        return 1.0 if bound in (0, 1) else (1 + np.sum(~(resampled < limit))) / (1 + len(resampled))

    if direction == "more":
        return above(margin), below(margin)
    if direction == "less":
        return below(margin), above(margin)
    return max(above(-margin), below(margin)), min(above(margin), below(-margin))


def _corrected(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Verdicts, from the p-values of all findings that were tested."""
    tested = [k for k, outcome in enumerate(outcomes) if outcome.measured and not outcome.reason]
    decided = list(outcomes)
    for k, p in zip(tested, holm([found.p for k in tested if (found := outcomes[k].measured)]), strict=True):
        found = outcomes[k].measured
        assert found is not None
        verdict: Verdict = "not decided"
        if p < LEVEL:
            verdict = "holds" if found.p_holds < found.p_fails else "does not hold"
        decided[k] = replace(outcomes[k], verdict=verdict, p=p)
    return decided
