"""Grids, shared memory, barriers, warp operations and atomics, with both ways of switching fibers."""

import math
from pathlib import Path

import numpy as np
import pytest
from support.simulator.compiled import SOURCES, Library, compile_source

pytestmark = pytest.mark.compiles
GENERATOR = np.random.default_rng(0)


@pytest.fixture(scope="module", params=["assembly", pytest.param("ucontext", marks=pytest.mark.slow)])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    directory: Path = tmp_path_factory.mktemp(request.param)
    flags = ["-DTKJIT_SIM_UCONTEXT"] if request.param == "ucontext" else []
    return compile_source(SOURCES / "language.cu", directory, *flags)


@pytest.mark.parametrize("grid", [(1,), (3, 2), (2, 3, 4)])
@pytest.mark.parametrize("block", [(1,), (33,), (4, 8, 2), (1, 1, 64), (1024,)])
def test_every_thread_runs_once_with_its_indices(library, grid, block):
    blocks, threads = math.prod(grid), math.prod(block)
    seen = np.full((blocks, threads, 4), -1, np.int32)
    assert library.launch("record_indices", grid, block, seen) is None
    x, y = (*block, 1)[:2]
    index = np.arange(threads)
    assert (seen[:, :, 0] == np.arange(blocks)[:, None]).all()
    assert (seen[:, :, 1] == index % x).all()
    assert (seen[:, :, 2] == index // x % y).all()
    assert (seen[:, :, 3] == index // (x * y)).all()


def test_template_with_launch_bounds_unroll_and_converted_arguments(library):
    n = 1000
    x, y = GENERATOR.standard_normal((2, n)).astype(np.float32)
    expected = ((y + x) + x) + x + np.float32(1)
    assert library.launch("scaled_sum", 4, 256, x, y, n) is None
    np.testing.assert_array_equal(y, expected)


def test_struct_argument(library):
    x = np.arange(1000, dtype=np.float32)
    y = np.zeros_like(x)
    assert library.launch("by_struct", 3, 64, x, y, 1000) is None
    np.testing.assert_array_equal(y, -x)


def test_static_shared_memory(library):
    x = np.arange(40 * 256, dtype=np.int32)
    y = np.zeros_like(x)
    assert library.launch("reverse_static", 40, 256, x, y) is None
    np.testing.assert_array_equal(y.reshape(40, 256), x.reshape(40, 256)[:, ::-1])


@pytest.mark.parametrize("shared", [512, 4096, 227 * 1024])
def test_dynamic_shared_memory_is_aligned_to_1024_bytes(library, shared):
    x = np.arange(16 * 128, dtype=np.int32)
    y = np.zeros_like(x)
    misaligned = np.zeros(1, np.int32)
    assert library.launch("reverse_dynamic", 16, 128, x, y, misaligned, shared=shared) is None
    np.testing.assert_array_equal(y.reshape(16, 128), x.reshape(16, 128)[:, ::-1])
    assert not misaligned


@pytest.mark.parametrize("values", [np.zeros(100), np.ones(100), np.arange(100) % 3, np.arange(100) == 99])
def test_barrier_reductions(library, values):
    x = values.astype(np.int32)
    count, conjunction, disjunction = np.full((3, 100), -1, np.int32)
    assert library.launch("barrier_reductions", 1, 100, x, count, conjunction, disjunction) is None
    assert (count == np.count_nonzero(x)).all()
    assert (conjunction == int(x.all())).all()
    assert (disjunction == int(x.any())).all()


def test_exited_threads_do_not_hold_up_a_barrier(library):
    rounds = np.zeros(8, np.int32)
    assert library.launch("early_exit", 1, 256, rounds) is None
    np.testing.assert_array_equal(rounds, np.cumsum([128, 64, 32, 16, 8, 4, 2, 1]))


def test_named_barriers_pass_a_value_back_and_forth(library):
    log = np.zeros(10, np.int32)
    assert library.launch("ping_pong", 1, 64, log) is None
    np.testing.assert_array_equal(log, np.arange(1, 11))


def test_softmax(library):
    x = GENERATOR.standard_normal((20, 1000)).astype(np.float32) * 4
    y = np.zeros_like(x)
    assert library.launch("softmax", 20, 256, x, y, 1000) is None
    expected = np.exp(x.astype(float) - x.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(y, expected, atol=1e-6)


def shuffled(x: np.ndarray, amount: int, width: int) -> np.ndarray:
    """Return the results of the four shuffles, by the PTX ISA's pseudocode for ``shfl.sync``."""
    result = np.zeros((4, 32), x.dtype)
    for lane in range(32):
        segment, end = lane & ~(width - 1), lane | (width - 1)
        sources = [
            segment | (amount & (width - 1)),
            lane - amount if lane - amount >= segment else lane,
            lane + amount if lane + amount <= end else lane,
            lane ^ amount if lane ^ amount <= end else lane,
        ]
        result[:, lane] = x[sources]
    return result


@pytest.mark.parametrize("name, dtype", [("float", np.float32), ("double", np.float64), ("bfloat16", np.uint16)])
@pytest.mark.parametrize("amount, width", [(0, 32), (1, 32), (5, 32), (31, 32), (3, 8), (9, 16), (1, 1), (2, 2)])
def test_shuffles(library, name, dtype, amount, width):
    x = (GENERATOR.standard_normal(32) * 100).astype(np.int16).astype(dtype)
    result = np.zeros((4, 32), dtype)
    assert library.launch(f"shuffles_{name}", 1, 32, x, result, amount, width) is None
    np.testing.assert_array_equal(result, shuffled(x, amount, width))


def test_divergent_lanes_exchange_among_themselves(library):
    result = np.zeros(32, np.int32)
    assert library.launch("divergent_shuffles", 1, 32, result) is None
    thirds = list(range(0, 32, 3))
    low_others = sum(lane < 16 for lane in range(32) if lane % 3)
    expected = [thirds[(thirds.index(lane) + 3) % 11] if lane % 3 == 0 else 100 * low_others + 21 for lane in range(32)]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("parity", [0, 1])
def test_lanes_can_be_in_two_warp_operations_at_once(library, parity):
    """Run each pair of operations: the first in half the lanes, the second in all lanes or in the others."""
    wrong = np.zeros((16, 16), np.int32)
    assert library.launch("overlapping_masks", 1, 32, parity, wrong) is None
    assert not wrong.any(), np.argwhere(wrong)


@pytest.mark.parametrize("before", [0, 1])
def test_lanes_that_have_exited_are_not_waited_for(library, before):
    wrong = np.zeros(16, np.int32)
    assert library.launch("masks_with_exited_lanes", 1, 32, before, wrong) is None
    assert not wrong.any(), np.argwhere(wrong)


@pytest.mark.parametrize("threads", [32, 64, 48])
def test_votes_matches_and_reductions(library, threads):
    x = GENERATOR.integers(0, 9, threads).astype(np.int32)
    x[0] = 5
    result = np.zeros((8, threads), np.uint32)
    assert library.launch("votes", 1, threads, x, result) is None
    for start in range(0, threads, 32):
        warp = x[start : start + 32].astype(np.int64)
        bits = 1 << np.arange(len(warp), dtype=np.int64)
        every_lane = bits.sum()
        of_warp = result[:, start : start + 32]
        assert (of_warp[0] == bits[warp > 3].sum()).all()
        assert (of_warp[1] == int((warp == 5).any())).all()
        assert (of_warp[2] == 1).all()
        np.testing.assert_array_equal(of_warp[3], [bits[warp == value].sum() for value in warp])
        assert (of_warp[4] == every_lane).all()
        assert (of_warp[5] == every_lane).all()
        assert (of_warp[6].view(np.int32) == warp.max() - 4).all()
        assert (of_warp[7] == np.bitwise_xor.reduce(warp << np.arange(len(warp)) % 8)).all()


def test_active_mask_has_the_lanes_at_the_same_place(library):
    masks, counter = np.zeros((3, 64), np.uint32), np.zeros(1, np.int32)
    assert library.launch("active_masks", 1, 64, masks, counter) is None
    lanes = np.arange(64) % 32
    assert (masks[0] == 0xFFFFFFFF).all()
    assert (masks[1][lanes % 4 == 1] == 0x22222222).all()
    assert (masks[1][lanes % 4 == 2] == 0x44444444).all()
    assert counter[0] == 16
    np.testing.assert_array_equal(np.sort(masks[2][lanes % 4 == 1]), np.arange(16))


def test_loops_that_wait_with_atomics_let_others_run(library):
    flag, lock = np.zeros((2, 1), np.int32)
    order = np.zeros(2, np.int32)
    assert library.launch("spinning", 1, 256, flag, lock, order) is None
    assert list(order) == [1, 8]


def test_large_static_and_local_arrays(library):
    x = np.zeros(4 * 128, np.int32)
    assert library.launch("large_static", 4, 128, x) is None
    thread = np.arange(128)
    i = thread * 997 % (50 * 1024)
    expected = i + (i % 4096 ^ i % 128) + (thread ^ thread)
    np.testing.assert_array_equal(x.reshape(4, 128), np.broadcast_to(expected, (4, 128)))


def test_atomics_over_many_blocks(library):
    blocks, threads = 64, 128
    total = blocks * threads
    integers = np.zeros(9, np.int32)
    float_sum, wide, precise = np.zeros(1, np.float32), np.zeros(1, np.uint64), np.zeros(1)
    pair = np.zeros(2, np.float16)
    assert library.launch("atomics", blocks, threads, integers, float_sum, wide, pair, precise) is None
    parity = np.bitwise_xor.reduce(np.arange(total))
    expected = [total, total - 1, 1 - total, 2**31 - 1, parity, total % 7, -2 * total, 0, total]
    np.testing.assert_array_equal(integers, expected)
    assert float_sum[0] == total
    assert wide[0] == total << 33
    assert precise[0] == total / 2
    np.testing.assert_array_equal(pair, [1000, -1000])
