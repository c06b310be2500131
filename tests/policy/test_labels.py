"""Labels, curves and swept numbers: they name folders of runs and rows of published tables, so they never change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from fake import context_of

from simulst.config import parse_decoding
from simulst.errors import SimulstError
from simulst.hypotheses import Beam, Tokens
from simulst.policy import boundary
from simulst.policy.commit import Commit
from simulst.policy.context import WaitToken
from simulst.policy.read import Reading, WaitK
from simulst.policy.stop import AnyOf, EndOfSentence, MaxTokens, Stop, Stopping

ROWS = [line.split("\t") for line in (Path(__file__).parent / "labels.tsv").read_text().splitlines()[1:]]


@pytest.mark.parametrize(("text", "label", "strategy", "curve", "swept"), ROWS)
def test_names_stay_as_they_are(text: str, label: str, strategy: str, curve: str, swept: str) -> None:
    decoding = parse_decoding(yaml.safe_load(text), "labels.tsv")
    assert (decoding.label, decoding.strategy) == (label, strategy)
    assert decoding.curve == (curve, float(swept) if swept else None)
    assert parse_decoding(decoding.raw, "again") == decoding


THREE = MaxTokens(3)


@dataclass(frozen=True)
class Parts(Commit):
    """Options of each kind."""

    n: int
    x: float = 0.5
    name: str = ""
    exact: bool = False
    layers: tuple[int, ...] = ()
    inner: Stop = THREE

    label = "P-{n}-{x:.2f}{name:-}{exact:-exact}{layers:-L}{inner:+}{more}"
    sweeps = "n"

    @property
    def more(self) -> str:
        return "!"

    def stable(self, beams: Sequence[Beam]) -> Tokens:
        return ()


def test_a_label_is_filled_in() -> None:
    assert Parts(2).label == "P-2-0.50+N3!"
    full = Parts(2, 1 / 3, "a", True, (0, -1), AnyOf((MaxTokens(1), EndOfSentence(), MaxTokens(2))), whole_words=True)
    assert full.label == "P-2-0.33-a-exact-L0+-1+N1+N2!w"
    assert (full.curve, full.swept) == ("P-n-0.33-a-exact-L0+-1+N1+N2!w", 2)


@dataclass(frozen=True)
class Misspelt(Parts):
    label = "P-{m}"


def test_a_label_that_names_no_option() -> None:
    with pytest.raises(SimulstError, match=r"Misspelt: label 'P-\{m\}' is wrong \(.*'m'\); write the class's options"):
        Misspelt(2).label  # noqa: B018


def test_options_are_never_what_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary, "_load", lambda path: SimpleNamespace(predictor=SimpleNamespace(tau=100)))
    model = SimpleNamespace(sample_rate=16000, guide=lambda opening: None)
    trained = {"trained_wait": (3, 280.0, 1), "wait": WaitToken(5, {2: (4,)}, 1680.0, 640.0)}
    context = context_of(load_model=lambda path, **options: model, layers=2, heads=3, **trained)
    for text, *_ in ROWS:
        decoding = parse_decoding(yaml.safe_load(text), "labels.tsv")
        read, stop = decoding.read, decoding.stop
        if not isinstance(read, WaitK):
            assert isinstance(read.open(context), Reading)
        opened = stop.open(context)
        assert isinstance(opened, Stopping) and opened.options is stop
        for part in (read, stop, decoding.commit, decoding.segment, decoding.late):
            assert not isinstance(part, Reading | Stopping) and hash(part) == hash(replace(part))
