"""Shuffles, votes, matches and reductions of a full warp, which are exact on every device."""

from collections.abc import Callable

import numpy as np
from support.fidelity.rows import Row, table

LANE = np.arange(32)


def inputs(generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    return tuple(generator.integers(-(2**31), 2**31, (3, 1024)).astype(np.int32))


def by_warp(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Apply ``function`` to each warp's x, y and z. It returns 32 results, or one for all lanes."""

    def reference(*arrays: np.ndarray) -> np.ndarray:
        warps = zip(*(array.reshape(-1, 32) for array in arrays), strict=True)
        results = [np.broadcast_to(np.asarray(function(*warp), np.int64), 32) for warp in warps]
        return np.concatenate(results).astype(np.uint32).view(np.int32)

    return reference


def shuffled(source: Callable[[np.ndarray, int], np.ndarray], width: int) -> Callable[..., np.ndarray]:
    """Return a reference for a shuffle from the lane ``source(lane in segment, operand)``.

    A lane whose source is outside of its segment keeps its own value.
    """

    def function(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        inside = LANE % width
        chosen = source(inside, y)
        is_valid = (chosen >= 0) & (chosen < width)
        return x[np.where(is_valid, LANE - inside + chosen, LANE)]

    return by_warp(function)


def ballot(predicate: np.ndarray) -> int:
    return int((predicate.astype(np.int64) << LANE).sum())


def shuffle_rows(width: int) -> list[Row]:
    return [
        Row(f"__shfl_sync(~0u, x, y & 63, {width})", shuffled(lambda i, y: (y & 63) % width, width)),
        Row(f"__shfl_up_sync(~0u, x, 3, {width})", shuffled(lambda i, y: i - 3, width)),
        Row(f"__shfl_down_sync(~0u, x, 5, {width})", shuffled(lambda i, y: i + 5, width)),
        Row(f"__shfl_xor_sync(~0u, x, 3, {width})", shuffled(lambda i, y: i ^ 3, width)),
    ]


def matching(x: np.ndarray) -> list[int]:
    return [ballot(x == value) for value in x]


ROWS = [
    *(row for width in (32, 16, 8) for row in shuffle_rows(width)),
    Row("int(__shfl_sync(~0u, pair(x, y), 7) >> 32)", by_warp(lambda x, y, z: y[7])),
    Row("__ballot_sync(~0u, x & 1)", by_warp(lambda x, y, z: ballot(x & 1))),
    Row("__any_sync(~0u, (x & 31) == 0)", by_warp(lambda x, y, z: bool((x & 31 == 0).any()))),
    Row("__all_sync(~0u, (x & 31) != 0)", by_warp(lambda x, y, z: bool((x & 31 != 0).all()))),
    Row("__match_any_sync(~0u, x & 3)", by_warp(lambda x, y, z: matching(x & 3))),
    Row("match_all(x & 0x40000000)", by_warp(lambda x, y, z: 0)),
    Row("match_all(x >> 31 & 0)", by_warp(lambda x, y, z: 2**32 - 1)),
    Row("__reduce_add_sync(~0u, x)", by_warp(lambda x, y, z: x.astype(np.int64).sum() % 2**32)),
    Row("__reduce_min_sync(~0u, x)", by_warp(lambda x, y, z: x.min())),
    Row("__reduce_max_sync(~0u, unsigned(x))", by_warp(lambda x, y, z: x.view(np.uint32).max())),
    Row("__reduce_and_sync(~0u, unsigned(x | 0xf00))", by_warp(lambda x, y, z: np.bitwise_and.reduce(x | 0xF00))),
    Row("__reduce_or_sync(~0u, unsigned(x & 0xf0f))", by_warp(lambda x, y, z: np.bitwise_or.reduce(x & 0xF0F))),
    Row("__reduce_xor_sync(~0u, unsigned(x))", by_warp(lambda x, y, z: np.bitwise_xor.reduce(x))),
]
DEFINITIONS = """
__device__ long long pair(int low, int high) { return (static_cast<long long>(high) << 32) + unsigned(low); }
__device__ unsigned match_all(int value) {
    int all_equal;
    const unsigned mask = __match_all_sync(~0u, value, &all_equal);
    return all_equal ? mask : 0;
}
"""
CASES = [table("warp_functions", "int32", ROWS, inputs, definitions=DEFINITIONS)]
