"""Compiled products, and torch's, equal plain matrix products."""

import logging
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulst.kernels import products
from simulst.kernels.compiled_products import BLOCK, FloatProduct
from simulst.kernels.compiler import build
from simulst.kernels.products import LARGEST, ByTorch, Product, product
from simulst.kernels.tiles import PANEL

MANY = 50  # rows, more than a processor sums at once
sizes = st.tuples(st.integers(0, MANY), st.integers(1, 2 * PANEL + 1), st.integers(1, 40) | st.integers(1, 3 * BLOCK))


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def both(weight: np.ndarray, bias: np.ndarray, integers: bool) -> Iterator[Product]:
    fastest = product(weight, bias, integers)
    assert not isinstance(fastest, ByTorch)
    yield from (fastest, ByTorch(weight, bias, integers))


@settings(max_examples=60)
@given(st.integers(0, 10**6), sizes, st.booleans(), st.sampled_from(["", "relu", "adds"]), st.sampled_from([1, 2]))
@example(0, (7, 4000, 2049), True, "adds", 2)
@example(0, (42, 256, 256), False, "relu", 2)
def test_equal_to_a_matrix_product(
    seed: int, size: tuple[int, int, int], integers: bool, also: str, threads: int
) -> None:
    many, outputs, inputs = size
    x, weight, bias = numbers(seed, many, inputs), numbers(seed + 1, outputs, inputs), numbers(seed + 2, outputs)
    y = numbers(seed + 3, many, outputs)
    wanted = x.astype(np.float64) @ weight.T + bias
    wanted = {"": wanted, "relu": np.maximum(wanted, 0), "adds": y + wanted}[also]
    # A weight is rounded by at most half of 1/127 of the largest of its output.
    error = 1e-5 * inputs + (np.abs(x).sum(1, keepdims=True) * np.abs(weight).max(1) / 250 if integers else 0)
    for made in both(weight, bias, integers):
        found = y.copy()
        made(x, found, relu=also == "relu", adds=also == "adds", threads=threads)
        assert (np.abs(found - wanted) <= error).all()


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.booleans(), st.integers(1, MANY))
def test_a_row_does_not_depend_on_the_others(seed: int, integers: bool, many: int) -> None:
    x = numbers(seed + 2, many, 33) * 10.0 ** (np.arange(many, dtype=np.float32) % 13)[:, None]
    together, alone = np.empty((2, many, PANEL + 1), np.float32)
    for made in both(numbers(seed, PANEL + 1, 33), numbers(seed + 1, PANEL + 1), integers):
        made(x, together)
        for row in range(many):
            made(x[row : row + 1], alone[row : row + 1])
        assert (together == alone).all()


@settings(max_examples=40)
@given(st.integers(0, 10**6), sizes, st.sampled_from([1, 2]))
def test_integers_are_summed_exactly(seed: int, size: tuple[int, int, int], threads: int) -> None:
    many, outputs, inputs = size
    weight = np.random.default_rng(seed).integers(-LARGEST, LARGEST + 1, (outputs, inputs))
    weight[:, 0] = LARGEST  # so that scales are 1
    most = min(2**15 - 1, (2**31 - 1) // (LARGEST * (inputs + inputs % 2)))
    x = np.random.default_rng(seed + 1).integers(-most, most + 1, (many, inputs))
    x[:, 0] = most
    y = np.empty((many, outputs), np.float32)
    for made in both(weight.astype(np.float32), np.zeros(outputs, np.float32), True):
        made(x.astype(np.float32), y, threads=threads)
        assert (y == (x @ weight.T).astype(np.float32)).all()


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_what_is_no_number_stays_none(integers: bool, broken: float) -> None:
    """Otherwise nobody would notice a broken checkpoint or broken audio."""
    weight, bias, x = numbers(0, 3, 4), numbers(1, 3), numbers(2, 2, 4)
    y = np.empty((2, 3), np.float32)
    for made in both(weight, bias, integers):
        x[1, 2] = broken
        made(x, y, relu=np.isnan(broken))
        assert np.isfinite(y[0]).all() and not np.isfinite(y[1]).any()
    for made in both(weight * np.float32(np.nan), bias, integers):
        made(numbers(2, 2, 4), y, relu=True)
        assert np.isnan(y).all()


def test_the_largest_numbers_do_not_overflow() -> None:
    for inputs in (1, 2, 2049, 5001):
        y = np.empty((1, 1), np.float32)
        for made in both(np.ones((1, inputs), np.float32), np.zeros(1, np.float32), True):
            made(np.ones((1, inputs), np.float32), y)
            assert abs(y[0, 0] / inputs - 1) < 1e-5


def test_a_product_that_does_not_agree_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(FloatProduct):
        def __call__(self, x: np.ndarray, y: np.ndarray, *options: object) -> None:
            super().__call__(x, y, *options)  # type: ignore[arg-type]
            y[-1, -1] += 0.01

    monkeypatch.setattr(build("simulst.kernels.compiled_products"), "FloatProduct", Wrong)
    products._fastest.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            assert isinstance(product(numbers(0, 3, 4), numbers(1, 3)), ByTorch)
            assert isinstance(product(numbers(0, 3, 4), numbers(1, 3)), ByTorch)
    finally:
        products._fastest.cache_clear()
    assert caplog.text.count("do not agree") == 1
