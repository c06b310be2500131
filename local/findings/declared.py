"""Findings as a YAML file declares them (conf/findings/*.yaml)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from published.section import Kind
from simulst.errors import SimulstError
from simulst.files.yaml import read_yaml
from simulst.languages import code_of
from simulst.measure.metric import lags_of
from simulst.options import build_options

Text = Annotated[str, Field(min_length=1)]
LAGS = tuple(metric.key for metric in lags_of("sentences") if metric.unit == "ms" and "AL_steps" not in metric.key)
"""Latency metrics in ms that every log has."""


@dataclass(frozen=True)
class Finding:
    """One finding: the runs `a` differ from the runs `b` by more, or by less, than `margin`.

    id: a short name, such as C3.
    section: where in the paper it stands.
    sentence: what the paper finds, in our own words.
    kind: the figure that is compared (see `findings.compare`).
    a, b: patterns of run labels with shell wildcards, such as `LA-2_*ms`. Each needs a run. A pattern with a slash is
        compared with the end of the run's path, so that `char/k*` names the runs in folders called char.
    direction: what the difference a - b is said to be: "more" or "less" than the margin, or the "same", not further
        from 0 than the margin.
    margin: in BLEU, ms, percent (cost, cost_at_lag) or as a ratio (length).
    lag: the latency metric of the finding.
    up_to: for a comparison at equal lag: the highest lag that counts, in ms; None: any.
    needs_seeds: whether the finding is about training, so that it takes two trainings with different seeds.
    languages: target languages for which the paper finds it; empty: all.
    command: makes the runs.
    note: what a verdict can't mean, or how large the paper's difference is; the page of verdicts says it.

    Raises SimulstError: an unknown latency metric or language; "same" within no margin; `up_to` with another kind.
    """

    id: Text
    section: Text
    sentence: Text
    kind: Kind
    a: Annotated[tuple[Text, ...], Field(min_length=1)]
    b: Annotated[tuple[Text, ...], Field(min_length=1)]
    direction: Literal["more", "less", "same"]
    margin: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    lag: str = "LAAL"
    up_to: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    needs_seeds: bool = False
    languages: tuple[str, ...] = ()
    command: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.lag not in LAGS:
            raise SimulstError(f"'lag' of {self.id} is '{self.lag}'; choose from {', '.join(LAGS)}.")
        if self.direction == "same" and self.margin <= 0:
            raise SimulstError(f"{self.id} says that two things are the same; give it a margin above 0.")
        if self.up_to is not None and not self.kind.endswith("_at_lag"):
            raise SimulstError(f"{self.id} has 'up_to', which belongs to quality_at_lag and cost_at_lag; leave it out.")
        for language in self.languages:
            code_of(language)

    def is_for(self, language: str) -> bool:
        """Whether the paper finds it for this target language."""
        return not self.languages or code_of(language) in map(code_of, self.languages)


@dataclass(frozen=True)
class Paper:
    """A file of findings.

    paper: its name. command: makes the runs of findings without a command of their own.
    """

    paper: Text
    findings: tuple[Any, ...]
    command: str = ""


def load_findings(paths: Sequence[str | Path]) -> dict[str, list[Finding]]:
    """The findings of files, by the name of the paper.

    Raises SimulstError: a file is missing or broken; an option is unknown, missing or wrong; an id stands twice.
    """
    papers: dict[str, list[Finding]] = {}
    seen: set[str] = set()
    for path in paths:
        raw = read_yaml(path, "file of findings")
        if not isinstance(raw, dict):
            raise SimulstError(f"{path}: a file of findings is a mapping with the keys paper, command and findings.")
        paper = build_options(Paper, raw, str(path), "the file")
        for number, values in enumerate(paper.findings, start=1):
            finding = _finding(values, f"{path}, finding {number}", paper.command)
            if finding.id in seen:
                raise SimulstError(f"{path}: two findings are called {finding.id}; give each an id of its own.")
            seen.add(finding.id)
            papers.setdefault(paper.paper, []).append(finding)
    if not seen:
        raise SimulstError(f"{', '.join(map(str, paths))}: no finding; declare one under 'findings'.")
    return papers


def _finding(values: Any, where: str, command: str) -> Finding:
    if not isinstance(values, dict):
        known = ", ".join(field.name for field in fields(Finding))
        raise SimulstError(f"{where}: a finding is a mapping with the keys {known}.")
    # A number is as good as a text here: `section: 3.4`.
    texts = {key: str(values[key]) for key in ("id", "section") if isinstance(values.get(key), int | float)}
    values = {"command": command, **values, **texts}
    return build_options(Finding, values, where, f"the finding {values.get('id', '')}".strip())
