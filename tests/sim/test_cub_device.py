"""CUB's algorithms for a whole device on the CPU, in their two phases."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from support.simulator.compiled import SOURCES, Library, compile_source

pytestmark = pytest.mark.compiles
DTYPES = [np.int32, np.float32, np.uint8, np.float64]
of_types = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
of_sizes = pytest.mark.parametrize("n", [1, 2, 33, 1000])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return compile_source(SOURCES / "cub_device.cu", tmp_path_factory.mktemp("cub_device"), "-O0")


def values(dtype: type, n: int, high: int = 7) -> np.ndarray:
    return np.random.default_rng(n).integers(0, high, n).astype(dtype)


def call(library: Library, name: str, x: np.ndarray, rows: int, indices: np.ndarray | None = None) -> tuple:
    """Call a function, and return the rows that it writes and its indices."""
    y = np.full((rows, x.size), 88, x.dtype)
    z = np.full(4 * x.size + 16, -1, np.int64) if indices is None else indices
    function = getattr(library.functions, f"{name}_{x.dtype.name}")
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (x, y, z)]
    assert function(*pointers, x.size) == 0
    return y, z


@of_types
@pytest.mark.parametrize("n", [7, 33, 1000])
def test_reductions(library, dtype, n):
    x = values(dtype, n)
    y, z = call(library, "reduce", x, 1)
    total = x.sum(dtype=dtype)
    expected = [total, x.min(), x.max(), total + dtype(5), (x * x).sum(dtype=dtype), x.max(), x.min()]
    assert y[0, :7].tolist() == np.array(expected, dtype).tolist()
    assert z[:2].tolist() == [x.argmax(), x.argmin()]


@of_types
@of_sizes
def test_scans(library, dtype, n):
    x = values(dtype, n)
    y, _ = call(library, "scan", x, 6)
    sums = x.cumsum(dtype=dtype)
    starts = np.flatnonzero(np.append(True, x[1:] != x[:-1]))
    before = np.repeat((sums - x)[starts], np.diff(np.append(starts, n)))
    expected = [
        sums - x,
        sums,
        np.maximum.accumulate(np.append(dtype(3), x))[:-1],
        np.minimum.accumulate(x),
        sums - before,
        sums - x,
    ]
    for row, wanted in enumerate(expected):
        np.testing.assert_array_equal(y[row], wanted.astype(dtype), err_msg=f"row {row}")


@of_types
@of_sizes
def test_sorts(library, dtype, n):
    x = values(dtype, n, 50)
    if np.dtype(dtype).kind != "u":
        x -= dtype(20)
    indices = np.concatenate([np.zeros(3 * n, np.int64), np.arange(n), np.zeros(n, np.int64)])
    y, z = call(library, "sort", x, 7, indices)
    up, down = np.argsort(x, kind="stable"), np.argsort(-x.astype(float), kind="stable")
    third = n // 3
    by_segments = np.concatenate([np.sort(x[:third]), np.sort(x[third:])])
    for row, wanted in enumerate([x[up], x[down], x[up], x[down], x[down], by_segments]):
        np.testing.assert_array_equal(y[row], wanted, err_msg=f"row {row}")
    for row, order in enumerate([up, down, down]):
        np.testing.assert_array_equal(z[row * n : (row + 1) * n], order, err_msg=f"indices {row}")


@of_types
@of_sizes
def test_selections_and_runs(library, dtype, n):
    x = values(dtype, n, 4)
    y, z = call(library, "select", x, 6)
    is_odd, begins = x.astype(int) % 2 == 1, np.append(True, x[1:] != x[:-1])
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, n))
    chosen = [x[is_odd], x[x != 0], x[begins], np.append(x[is_odd], x[~is_odd][::-1]), x[begins]]
    chosen.append(np.add.reduceat(x, starts, dtype=dtype))
    for row, wanted in enumerate(chosen):
        np.testing.assert_array_equal(y[row, : wanted.size], wanted, err_msg=f"row {row}")
        assert (y[row, wanted.size :] == 88).all()
    counts = [is_odd.sum(), (x != 0).sum(), begins.sum(), is_odd.sum(), starts.size, starts.size]
    assert z[:6].tolist() == counts
    assert z[8 : 8 + starts.size].tolist() == lengths.tolist()


@of_types
@of_sizes
def test_histograms(library, dtype, n):
    x = values(dtype, n, 9)
    _, z = call(library, "histogram", x, 1)
    even = np.floor(x[x < 6] / 1.5).astype(int)
    ranges = np.digitize(x[x < 5], [0, 1, 4, 5]) - 1
    assert z[:4].tolist() == np.bincount(even, minlength=4).tolist()
    assert z[4:7].tolist() == np.bincount(ranges, minlength=3).tolist()
