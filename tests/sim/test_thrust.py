"""Thrust's vectors and algorithms on the CPU."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from support.simulator.compiled import SOURCES, Library, compile_source

pytestmark = pytest.mark.compiles
of_sizes = pytest.mark.parametrize("n", [1, 10, 1000])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return compile_source(SOURCES / "thrust.cu", tmp_path_factory.mktemp("thrust"))


def values(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(-3, 4, n).astype(np.int32)


def call(library: Library, name: str, x: np.ndarray, *outputs: np.ndarray) -> None:
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in outputs]
    getattr(library.functions, name)(x.ctypes.data_as(ctypes.c_void_p), x.size, *pointers)


@of_sizes
def test_reductions(library, n):
    x, y = np.sort(values(n)), np.zeros(11, np.int32)
    call(library, "reductions", x, y)
    squares = (x * x).sum()
    expected = [x.sum(), x.max(), squares + 1, squares + 3, (x == 2).sum(), (x % 2 == 1).sum(), x.argmin(), x.argmax()]
    assert y.tolist() == [*expected, squares, (x * np.arange(n)).sum(), np.searchsorted(x, 2)]


@of_sizes
def test_elementwise_algorithms_scans_and_sorts(library, n):
    x, y = values(n), np.zeros((8, n), np.int32)
    call(library, "rows", x, y)
    order = np.argsort(x, kind="stable")
    half = x.copy()
    half[n // 2 :] = 7
    by_pairs = np.lexsort((np.arange(n), x))[::-1]
    expected = [x.cumsum(), x.cumsum() - x + 5, x * x, np.append(x[:1], np.diff(x)), x[order], order, by_pairs]
    for row, wanted in enumerate([*expected, half[by_pairs]]):
        np.testing.assert_array_equal(y[row], wanted, err_msg=f"row {row}")


@of_sizes
def test_selections(library, n):
    x, counts, y = values(n), np.zeros(5, np.int32), np.zeros((5, n), np.int32)
    call(library, "selections", x, counts, y)
    odd, starts = x % 2 == 1, np.append(True, x[1:] != x[:-1])
    lengths = np.diff(np.append(np.flatnonzero(starts), n))
    for row, wanted in enumerate([x[odd], x[~odd], x[starts], x[odd], lengths]):
        np.testing.assert_array_equal(y[row, : counts[row]], wanted, err_msg=f"row {row}")


@pytest.mark.parametrize("device", [0, 1])
def test_algorithms_on_a_device_run_as_kernels(library, device):
    assert library.functions.runs_as_kernel(device) == device
