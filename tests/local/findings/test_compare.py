"""Curves and their differences, by hand and against numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findings import Finding
from findings.compare import difference, interpolate
from findings.figures import Figures


def run(bleu: float, lag: float, rtf: float = 0.1, length: float = 1.0) -> Figures:
    return Figures(np.array([bleu]), {"LAAL": np.array([lag])}, np.array([rtf]), np.array([length]), 9)


def asked(kind: str) -> Finding:
    return Finding("X", "1", "a and b", kind, ("a",), ("b",), "more")  # type: ignore[arg-type]


def found(kind: str, a: list[Figures], b: list[Figures]) -> float:
    return float(difference(asked(kind), a, b).values[0])


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.floats(-9, 9)), min_size=1, max_size=5, unique_by=lambda corner: corner[0]
    ),
    st.lists(st.floats(-5, 55), min_size=1, max_size=5),
)
@settings(max_examples=40)
def test_interpolation_is_numpys(corners: list[tuple[int, float]], at: list[float]) -> None:
    x, y = np.array(sorted(corners), dtype=float).T
    assert interpolate(x[None], y[None], np.array([at]))[0] == pytest.approx(np.interp(at, x, y), abs=1e-9)


def test_two_corners_at_one_place() -> None:
    x, y = np.array([[1.0, 2.0, 2.0, 3.0]]), np.array([[0.0, 1.0, 5.0, 6.0]])
    assert list(interpolate(x, y, np.array([[1.5, 2.0, 2.5]]))[0]) == [0.5, 5.0, 5.5]


def test_means_and_ranges() -> None:
    a, b = [run(30, 1000, 0.2, 1.0), run(34, 3000, 0.4, 0.8)], [run(20, 500, 0.1, 0.5), run(21, 900, 0.2, 0.7)]
    assert found("quality", a, b) == 11.5 and found("lag", a, b) == 1300
    assert found("cost", a, b) == pytest.approx(100) and found("length", a, b) == pytest.approx(0.3)
    assert found("quality_range", a, b) == 3 and found("lag_range", a, b) == 1600


def test_at_equal_lag() -> None:
    """a from (1 s, 20) to (3 s, 40), b from (2 s, 20) to (4 s, 40): the lines are 10 apart from 2 to 3 s."""
    a, b = [run(40, 3000, 0.3), run(20, 1000, 0.1)], [run(20, 2000, 0.1), run(40, 4000, 0.1)]
    one = difference(asked("quality_at_lag"), a, b)
    assert one.values[0] == pytest.approx(10) and one.levels == (2000, 3000) and one.bound is None
    assert found("cost_at_lag", a, b) == pytest.approx(150)
    back = difference(asked("lag_at_quality"), a, b)
    assert back.values[0] == pytest.approx(-1000) and back.levels == (20, 40)


def test_a_single_run_is_compared_at_its_lag() -> None:
    one = difference(asked("quality_at_lag"), [run(33, 2500)], [run(20, 2000), run(40, 4000)])
    assert one.values[0] == pytest.approx(8) and one.levels == (2500, 2500) and one.bound is None


def test_no_common_lag() -> None:
    a, b = [run(30, 1000), run(35, 2000)], [run(32, 3000), run(33, 4000)]
    one = difference(asked("quality_at_lag"), a, b)
    assert one.values[0] == pytest.approx(3) and one.levels == (3000, 3000) and one.bound == 1
    assert difference(asked("quality_at_lag"), b, a).bound == -1
    assert difference(asked("cost_at_lag"), a, b).bound == 0


def test_only_lags_up_to_a_limit() -> None:
    """a and b as in `test_at_equal_lag`, but a is 20 better at 3 s; half of the common range is left."""
    a, b = [run(20, 1000), run(30, 2000), run(50, 3000)], [run(20, 2000), run(40, 4000)]
    whole, half = asked("quality_at_lag"), replace(asked("quality_at_lag"), up_to=2500.0)
    assert difference(whole, a, b).values[0] == pytest.approx(15)
    one = difference(half, a, b)
    assert one.values[0] == pytest.approx(12.5) and one.levels == (2000, 2500) and one.bound is None
    none = difference(replace(half, up_to=1999.0), a, b)
    assert np.isnan(none.values[0])
    back = difference(replace(half, up_to=3500.0), [run(30, 1000)], [run(32, 3000), run(33, 4000)])
    assert back.values[0] == pytest.approx(-2) and back.bound == 1, "held back to a lag that counts"


def test_runs_that_a_faster_one_beats_do_not_count_at_equal_quality() -> None:
    a = [run(20, 1000), run(15, 1500), run(40, 3000)]
    b = [run(20, 1500), run(40, 3500)]
    assert found("lag_at_quality", a, b) == pytest.approx(-500)
    better, worse = [run(50, 1000), run(60, 2000)], [run(30, 1500), run(40, 2500)]
    one = difference(asked("lag_at_quality"), better, worse)
    assert one.values[0] == -1500 and one.levels == (40, 40) and one.bound == -1


def test_missing_figures_give_nan() -> None:
    assert np.isnan(found("cost", [run(30, 1000, np.nan)], [run(30, 1000)]))
    assert np.isnan(found("cost", [run(30, 1000)], [run(30, 1000, 0.0)]))
    assert np.isnan(found("quality_at_lag", [run(30, np.nan)], [run(30, 1000), run(40, 2000)]))
