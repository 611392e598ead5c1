"""CUB's primitives for blocks and warps on the CPU. Values are small integers, so sums do not depend on the order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from support.simulator.compiled import SOURCES, Library, compile_source

pytestmark = pytest.mark.compiles


class Shape(NamedTuple):
    """A block of x * y threads with n items each; the source has a kernel for each dtype."""

    dtype: type
    x: int
    y: int
    n: int

    @property
    def threads(self) -> int:
        return self.x * self.y

    @property
    def items(self) -> int:
        return self.threads * self.n


SHAPES = [
    Shape(np.int32, 64, 1, 1),
    Shape(np.float32, 50, 3, 2),
    Shape(np.float64, 16, 8, 4),
    Shape(np.uint8, 33, 1, 3),
    Shape(np.int64, 20, 1, 5),
    Shape(np.float16, 32, 2, 2),
]
IDS = [np.dtype(shape.dtype).name for shape in SHAPES]
of_shapes = pytest.mark.parametrize("shape", SHAPES, ids=IDS)
of_whole_warps = pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.threads % 32 == 0])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    # -O2 would take three times as long; the other sources are compiled with it
    return compile_source(SOURCES / "cub_block.cu", tmp_path_factory.mktemp("cub_block"), "-O0")


def values(shape: Shape, high: int = 3) -> np.ndarray:
    return np.random.default_rng(shape.items).integers(0, high, shape.items).astype(shape.dtype)


def rows(library: Library, kernel: str, shape: Shape, x: np.ndarray, number: int, count: int) -> np.ndarray:
    """Run a kernel, and return the rows that it writes; elements that it does not write are 88."""
    y = np.full((count, shape.items), 88, shape.dtype)
    name = f"{kernel}_{np.dtype(shape.dtype).name}"
    assert library.launch(name, 1, (shape.x, shape.y), x, y, 0, number) is None
    return y


def each(shape: Shape, per_thread: np.ndarray) -> np.ndarray:
    return np.repeat(per_thread, shape.n).astype(shape.dtype)


@of_shapes
@pytest.mark.parametrize("valid", [1, 17, 20])
def test_reductions(library, shape, valid):
    x = values(shape)
    first = x.reshape(-1, shape.n)[:, 0]
    y = rows(library, "reduce", shape, x, valid, 1)[0]
    expected = [x.sum(), first.sum(), x.max(), first[:valid].sum(), first[:valid].min(), first.sum()]
    assert y[:6].tolist() == np.array(expected).astype(shape.dtype).tolist()


@of_shapes
def test_scans(library, shape):
    x, initial = values(shape), 2
    first = x.reshape(-1, shape.n)[:, 0]
    y = rows(library, "scan", shape, x, initial, 14)
    inclusive = x.cumsum(dtype=shape.dtype)
    exclusive = inclusive - x
    of_first = first.cumsum(dtype=shape.dtype)
    expected = [
        inclusive,
        np.full_like(x, x.sum()),
        exclusive,
        np.full_like(x, x.sum()),
        np.maximum.accumulate(np.append(initial, x))[:-1],
        np.minimum.accumulate(x),
        exclusive + shape.dtype(initial),
        inclusive + shape.dtype(initial) + x.sum().astype(shape.dtype),
        each(shape, of_first),
        each(shape, of_first - first + shape.dtype(initial)),
        np.full_like(x, first.sum()),
        inclusive + shape.dtype(initial),
        np.full_like(x, x.sum()),
        each(shape, of_first - first),
    ]
    for row, wanted in enumerate(expected):
        np.testing.assert_array_equal(y[row], wanted.astype(shape.dtype), err_msg=f"row {row}")


@of_shapes
@pytest.mark.parametrize("missing", [0, 1, 7])
def test_loads_and_stores(library, shape, missing):
    x, valid = values(shape, 80), shape.items - missing
    algorithms = 6 if shape.threads % 32 == 0 else 4
    y = rows(library, "load_store", shape, x, valid, 24)[: 4 * algorithms]
    guarded = np.where(np.arange(shape.items) < valid, x, 99).astype(shape.dtype)
    stored = np.where(np.arange(shape.items) < valid, x, 88).astype(shape.dtype)
    for algorithm in range(algorithms):
        striped = algorithm == 1
        arrange = (lambda a: a.reshape(shape.n, -1).T.ravel()) if striped else (lambda a: a)
        for row, wanted in enumerate([arrange(x), arrange(guarded), guarded, stored]):
            np.testing.assert_array_equal(y[4 * algorithm + row], wanted, err_msg=f"algorithm {algorithm}, row {row}")


def keys_of(shape: Shape) -> np.ndarray:
    """Return keys with duplicates, negative ones if the type has any, and both zeros."""
    keys = values(shape, 30)
    if np.dtype(shape.dtype).kind != "u":
        keys -= shape.dtype(12)
    if np.dtype(shape.dtype).kind == "f":
        keys[3] = -0.0
    return keys


def digits(keys: np.ndarray, begin: int, end: int) -> np.ndarray:
    """Return some bits of the integers by which a radix sort orders keys."""
    size = keys.itemsize
    bits = (keys + 0 if keys.dtype.kind == "f" else keys).view(f"u{size}").astype(np.uint64)
    high, every = np.uint64(1 << (8 * size - 1)), np.uint64((1 << (8 * size)) - 1)
    if keys.dtype.kind == "i":
        bits ^= high
    if keys.dtype.kind == "f":
        bits = np.where(bits & high, ~bits & every, bits | high)
    return bits >> np.uint64(begin) & np.uint64((1 << (end - begin)) - 1)


@of_shapes
@pytest.mark.parametrize("end_bit", [2, 5, 8])
def test_sorts(library, shape, end_bit):
    x = keys_of(shape)
    y = rows(library, "sort", shape, x, end_bit, 16)
    indices = np.arange(shape.items) % 100
    up, down = np.argsort(x, kind="stable"), np.argsort(-x.astype(np.float64), kind="stable")
    some = np.argsort(digits(x, 1, end_bit), kind="stable")
    striped = np.arange(shape.items).reshape(shape.n, -1).T.ravel()
    valid = shape.items - 3
    part = np.argsort(-x[:valid].astype(np.float64), kind="stable")

    orders = [(0, up), (2, up), (4, down), (6, up[striped]), (8, down[striped]), (10, some)]
    merges = shape.threads & (shape.threads - 1) == 0
    for row, order in [*orders, *([(12, down)] if merges else [])]:
        np.testing.assert_array_equal(y[row], x[order], err_msg=f"row {row}")
        wanted = indices if row in (0, 8) else indices[order]  # 0 and 8 sort keys without their values
        np.testing.assert_array_equal(y[row + 1], wanted.astype(shape.dtype), err_msg=f"row {row + 1}")
    if merges and x.min() >= 0:  # the default pads the keys, so no key may sort after it
        np.testing.assert_array_equal(y[14, :valid], x[part])
        np.testing.assert_array_equal(y[15, :valid], indices[part].astype(shape.dtype))


@of_shapes
def test_exchanges(library, shape):
    x, rotation = values(shape, 80), 5
    y = rows(library, "exchange", shape, x, rotation, 6)
    np.testing.assert_array_equal(y[0], x.reshape(-1, shape.n).T.ravel())
    np.testing.assert_array_equal(y[1], x)
    np.testing.assert_array_equal(y[2], np.roll(x, rotation))
    np.testing.assert_array_equal(y[3], np.roll(y[2], rotation).reshape(shape.n, -1).T.ravel())
    np.testing.assert_array_equal(y[5], y[3])
    if shape.threads % 32 == 0:
        by_warp = y[3].reshape(-1, 32, shape.n).transpose(0, 2, 1).ravel()
        np.testing.assert_array_equal(y[4], by_warp)


@of_shapes
def test_neighbours(library, shape):
    x, valid = values(shape, 4), shape.items - 4
    y = rows(library, "neighbours", shape, x, valid, 13)
    differs = (x[1:] != x[:-1]).astype(int)
    shorter = x.copy()
    shorter[: valid - 1] = x[: valid - 1] - x[1:valid]
    firsts = x.reshape(-1, shape.n)[:, 0]
    counts = np.bincount(x.astype(int), minlength=16)
    segments = np.add.reduceat(firsts, range(0, shape.threads, -(-shape.threads // min(shape.threads, 32))))
    expected = [
        np.append(1, differs),
        np.append(differs, x[-1] != 3),
        np.append(x[0] != 5, differs),
        np.append(differs, 1),
        np.append(x[:1], x[1:] - x[:-1]),
        shorter,
        np.append(x[:1] - shape.dtype(7), x[1:] - x[:-1]),
        each(shape, np.roll(firsts, -3)),
        np.append(x[:1], x[:-1]),
        np.append(x[1:], x[-1:]),
        np.full_like(x, x[0]),
        each(shape, counts[np.arange(shape.threads) % 16] % 100),
        each(shape, np.append(segments, np.zeros(shape.threads - len(segments)))),
    ]
    for row, wanted in enumerate(expected):
        np.testing.assert_array_equal(y[row], wanted.astype(shape.dtype), err_msg=f"row {row}")


@of_whole_warps
@pytest.mark.parametrize("valid", [1, 5, 8])
def test_warps(library, shape, valid):
    x = values(shape, 3)
    y = rows(library, "warps", shape, x, valid, 30)
    for first_row, size in [(0, 32), (15, 8)]:
        check_warps(shape, x, y[first_row : first_row + 15], size, valid)


def check_warps(shape: Shape, x: np.ndarray, y: np.ndarray, size: int, valid: int) -> None:
    dtype = shape.dtype
    first = x.reshape(-1, size, shape.n)[:, :, 0]
    lane = np.arange(size)

    def at_first(result: np.ndarray) -> np.ndarray:
        return np.where(lane == 0, result[:, None], 0)

    thirds = np.add.reduceat(first, np.arange(0, size, 3), axis=1)
    segments = np.zeros_like(first)
    segments[:, ::3] = thirds
    inclusive = first.cumsum(1, dtype=dtype)
    before = np.concatenate([np.full((len(first), 1), 2), first[:, :-1]], 1)
    expected = [
        at_first(first.sum(1)),
        at_first(first[:, :valid].max(1)),
        segments,
        segments,
        inclusive,
        np.broadcast_to(inclusive[:, -1:], first.shape),
        np.maximum.accumulate(before, 1),
        inclusive + dtype(1),
        inclusive - first + dtype(1),
        np.broadcast_to(first[:, 1:2], first.shape),
    ]
    for row, wanted in enumerate(expected):
        np.testing.assert_array_equal(y[row], each(shape, wanted.ravel()), err_msg=f"row {row} of {size}")
    items = x.reshape(-1, size * shape.n)
    blocked = items.reshape(-1, size, shape.n)
    np.testing.assert_array_equal(y[10], blocked.reshape(-1, shape.n, size).transpose(0, 2, 1).ravel())
    np.testing.assert_array_equal(y[11], blocked.transpose(0, 2, 1).ravel())
    np.testing.assert_array_equal(y[12], np.sort(items, axis=1)[:, ::-1].ravel())
    np.testing.assert_array_equal(y[13], x)
    np.testing.assert_array_equal(y[14], x)
