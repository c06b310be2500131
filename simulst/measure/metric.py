"""What a metric is, in one place: scores, tables, curves, choices, tests, reports, findings and hand-ins read it here.

A metric of one's own is a `Metric` in a module of one's own, which says how it is computed. `simulst score --metric
my_module:TER` computes it; scores.json then describes it, so that whatever shows the scores needs no module.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from simulst.errors import SimulstError, warn_once
from simulst.files.code import files_of_modules
from simulst.files.folder import digest_of_files
from simulst.find import find, modules_of
from simulst.languages import CHINESE, code_of, unit_of
from simulst.options import read_fields

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF

Kind = Literal["quality", "lag", "other"]
Better = Literal["higher", "lower", "neither"]
OWN = "metrics"
"""Key of scores.json: what metrics of one's own are, by their keys."""


@dataclass(frozen=True)
class Texts:
    """What quality is computed from: a text for each sentence.

    predictions: what was written. references: empty if there are none. sources: what was said; empty if unknown.
    names: of the sentences, to compare logs. terms: those of each sentence, whose recall is scored.
    strata: the test set that each sentence is of, if several are pooled; empty: one.
    language: the target language. unit: "word" or "char".
    """

    predictions: tuple[str, ...]
    references: tuple[str, ...]
    language: str
    unit: str
    sources: tuple[str, ...] = ()
    names: tuple[str | int, ...] = ()
    terms: tuple[Sequence[str], ...] = ()
    strata: tuple[str, ...] = ()


@dataclass(frozen=True)
class Metric:
    """A score.

    key: in scores.json. heading: of its column in tables; empty: the key.
    better: which of two scores is better.
    kind: "quality" can be drawn upwards, chosen by and tested; "lag" can be drawn to the right, and has regimes.
    unit: such as ms or %; empty: none.
    digits: decimals in tables. kept: in scores.json.
    interval: whether tables have a column of its 95 % interval, which are <key>_low and <key>_high in scores.json.
    of: what it is a figure of: texts, the words of single sentences, or of whole recordings, or the computation.
    plain: of a lag that counts computation, the key of the same lag without it.
    read: READ's type without which tables do not show it. column: whether tables show it at all.
    corpus: how it is computed, by a metric of sacreBLEU's for the target language; then it has intervals and tests.
    segments: or else a function from the texts to the score of each sentence; their mean is the score.
    path: the name by which a metric of one's own is found (simulst/find.py). code: a digest of its module's files.

    Raises SimulstError: no key, no direction, or another word than these.
    """

    key: str
    better: Better | Literal[""] = ""
    heading: str = ""
    digits: int = 1
    unit: str = ""
    kind: Kind = "quality"
    interval: bool = True
    of: Literal["texts", "sentences", "recordings", "computation"] = "texts"
    kept: int = 3
    plain: str = ""
    read: str = ""
    column: bool = True
    corpus: Callable[[str], Any] | None = None
    segments: Callable[[Texts], Sequence[float]] | None = None
    path: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        if not self.key.isidentifier():
            raise SimulstError(f"the metric '{self.key}' has no key for scores.json; give letters, digits and _.")
        for name, known in (("better", Better), ("kind", Kind)):
            if (value := getattr(self, name)) not in get_args(known):
                said = f"says {name}={value!r}" if value else f"does not say what is {name}"
                raise SimulstError(f"the metric {self.key} {said}; give {name} one of {', '.join(get_args(known))}.")

    @property
    def name(self) -> str:
        """What heads its column."""
        return self.heading or self.key

    @property
    def axis(self) -> str:
        """Its name with its unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def text(self, value: float | None, signed: bool = False) -> str:
        """A score as tables show it. signed: with its sign, for differences."""
        return "–" if value is None else f"{value:{'+' if signed else ''}.{self.digits}f}"

    def interval_text(self, low: float | None, high: float | None, signed: bool = False) -> str:
        """An interval as tables show it."""
        return "–" if low is None or high is None else f"[{self.text(low, signed)}, {self.text(high, signed)}]"

    def rank(self, value: float) -> float:
        """A number by which scores are sorted, the best first."""
        return -value if self.better == "higher" else value


@functools.cache
def tokenizer_for(language: str) -> str:
    """sacreBLEU's tokenizer for a target language: 13a, zh for Chinese, ja-mecab for Japanese.

    For other languages without spaces it is char.

    Raises SimulstError: there is no such language; MeCab or its IPA dictionary is missing for Japanese. (With char,
        BLEU would be about twice as high.)
    """
    if unit_of(language) == "word":
        return "13a"
    if code_of(language) in CHINESE:
        return "zh"
    if code_of(language) != "ja":
        return "char"
    from sacrebleu.metrics import BLEU

    try:
        BLEU(tokenize="ja-mecab")
    except (RuntimeError, AssertionError) as error:
        raise SimulstError(
            "Japanese BLEU needs MeCab with the IPA dictionary; pip install 'sacrebleu[ja]', or run tools/install.sh."
        ) from error
    return "ja-mecab"


def bleu_for(language: str) -> BLEU:
    """sacreBLEU's BLEU for a target language. Raises SimulstError: as `tokenizer_for`."""
    from sacrebleu.metrics import BLEU  # here, as sacreBLEU takes a while to import

    return BLEU(tokenize=tokenizer_for(language))


def chrf_for(language: str) -> CHRF:
    """sacreBLEU's chrF2, the same for all languages."""
    from sacrebleu.metrics import CHRF

    return CHRF()


def _lags(of: Literal["sentences", "recordings"], *keys: str, with_computation: Sequence[str]) -> tuple[Metric, ...]:
    """Lags in ms, and each with computation; tables show these of `with_computation`."""
    plain = [
        Metric(
            key,
            "lower",
            digits=2 if key == "AP" else 0,
            unit="" if key == "AP" else "ms",
            kind="lag",
            of=of,
            interval=False,
        )
        for key in keys
    ]
    plain = [replace(one, read="wait_stride") if one.key in ("AL_original", "AL_steps") else one for one in plain]
    aware = [replace(m, key=f"{m.key}_CA", plain=m.key, column=m.key in with_computation) for m in plain]
    return *plain, *aware


BUILT_IN = (
    Metric("BLEU", "higher", corpus=bleu_for),
    Metric("chrF", "higher", corpus=chrf_for),
    Metric("COMET", "higher", digits=3, kept=4, interval=False),
    Metric("WER", "lower", unit="%", interval=False),
    Metric("CER", "lower", unit="%", interval=False),
    *_lags("sentences", "AL", "AL_original", "AL_steps", "LAAL", "AP", "DAL", with_computation=("AL", "LAAL")),
    *_lags("recordings", "LongYAAL", "LongLAAL", "StreamLAAL", with_computation=("LongYAAL",)),
    Metric("term_recall", "higher", "Terms", digits=3, kind="other", interval=False),
    Metric("RTF", "lower", digits=3, kind="other", interval=False, of="computation", kept=4),
    Metric("length_ratio", "neither", "Length", digits=2, kind="other", interval=False),
    Metric("missing", "lower", "Missing", unit="%", kind="other", interval=False),
    Metric("extra", "lower", "Extra", unit="%", kind="other", interval=False),
    Metric("invented", "lower", "Invented", unit="a minute", kind="other", interval=False),
)
"""Ours, in the order of tables. COMET's models are told by name: `simulst.measure.comet` computes it. WER and CER are
those of recognition. Whole recordings alone have the missing and extra units of their sentences, and what was written
where nobody speaks."""

KNOWN = {metric.key: metric for metric in BUILT_IN}


def lags_of(what: str) -> list[Metric]:
    """Our lags of "sentences" or "recordings", those with computation last."""
    return [metric for metric in BUILT_IN if metric.kind == "lag" and metric.of == what]


def rounded(value: float | None, digits: int = 3) -> float | None:
    """A figure for JSON, which knows no NaN."""
    return None if value is None or math.isnan(value) else round(float(value), digits)


def metrics_in(scores: Iterable[Mapping[str, Any]]) -> dict[str, Metric]:
    """All metrics by their keys, in the order of tables: ours, and those that one of these scores.json describes.

    Raises SimulstError: what describes one is broken.
    """
    known = dict(KNOWN)
    for one in scores:
        for key, described in (one.get(OWN) or {}).items():
            if key not in known:
                if isinstance(described, dict) and not is_of_its_code(described):
                    warn_once(
                        f"{described.get('path')} has changed since it gave scores of {key}; score the runs again."
                    )
                content = {"better": None, **described, "key": key} if isinstance(described, dict) else described
                known[key] = read_fields(Metric, content, f"scores.json: the metric {key}", "score the run again")
    kinds = get_args(Kind)
    return dict(sorted(known.items(), key=lambda item: kinds.index(item[1].kind)))


def is_of_its_code(described: Mapping[str, Any]) -> bool:
    """Whether a metric of one's own, as scores.json describes it, has the code that gave its score, if it is found."""
    before, now = described.get("code", ""), _digest_of_code(str(described.get("path", "")))
    return not before or now in ("", before)


def _digest_of_code(path: str) -> str:
    """A digest of the files of a metric's module, and of the user's modules that it imports; empty: none is found."""
    files = [file for file in files_of_modules(modules_of(path, "metric")).values() if file.is_file()]
    return digest_of_files(files) if files else ""


def description(metric: Metric) -> dict[str, Any]:
    """A metric of one's own, as scores.json describes it."""
    names = ("better", "heading", "digits", "unit", "kind", "interval", "path", "code")
    return {name: getattr(metric, name) for name in names}


def find_metrics(paths: Iterable[str]) -> tuple[Metric, ...]:
    """Metrics of one's own. paths: module:Name of each, or the name by which a package offers it.

    Raises SimulstError: it can't be imported; it is no metric, or does not say how it is computed; its key is taken.
    """
    found: dict[str, Metric] = {}
    for path in paths:
        metric = find("metric", path, {}, "--metric")
        if not isinstance(metric, Metric) or (metric.corpus is None) == (metric.segments is None):
            raise SimulstError(
                f"{path}: not a metric that can be computed; write a simulst.measure.Metric with corpus or segments."
            )
        if metric.key in found or metric.key in KNOWN:
            raise SimulstError(f"{path}: there is another metric {metric.key}; give it another key.")
        found[metric.key] = replace(metric, path=path, code=_digest_of_code(path))
    return tuple(found.values())


def check_quality(metrics: Mapping[str, Metric], key: str) -> Metric:
    """The quality of this key, by which runs can be compared.

    Raises SimulstError: there is none, or neither higher nor lower is better.
    """
    metric = metrics.get(key)
    if metric is None or metric.kind != "quality":
        known = ", ".join(key for key, metric in metrics.items() if metric.kind == "quality")
        raise SimulstError(f"'{key}' is no quality to compare runs by; choose from {known}.")
    if metric.better == "neither":
        raise SimulstError(f"'{key}' does not say whether higher or lower is better, so no run is the best by it.")
    return metric
