"""Cooperative groups, and the atomics of <cuda/atomic>."""

import numpy as np
import pytest
from support.simulator.compiled import SOURCES, Library, compile_source

pytestmark = pytest.mark.compiles


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return compile_source(SOURCES / "groups.cu", tmp_path_factory.mktemp("groups"))


VALUES = np.random.default_rng(1).integers(0, 100, 64).astype(np.int32)


@pytest.mark.slow
def test_block_and_grid(library):
    result = np.zeros((7, 6 * 12), np.int32)
    assert library.launch("block_and_grid", (3, 2), (4, 3), result) is None
    thread, block = np.arange(72) % 12, np.arange(72) // 12
    assert (result[0] == thread).all()
    assert (result[1] == 12).all()
    assert (result[2] == block % 3 + 100 * (block // 3)).all()
    assert (result[3] == thread % 4 + 100 * (thread // 4)).all()
    assert (result[4] == 304).all()
    assert (result[5] == 6 + 100 * block).all()
    assert (result[6] == 12 + 1000 * thread).all()


@pytest.mark.parametrize("size", [1, 4, 32])
def test_tiles(library, size):
    threads = VALUES.size
    result = np.zeros((14, threads), np.int32)
    assert library.launch(f"tiles_{size}", 1, threads, VALUES, result) is None
    result = result.reshape(14, -1, size)
    x, rank = VALUES.reshape(-1, size), np.arange(size)
    assert (result[0] == rank + 100 * size).all()
    assert (result[1] == np.arange(threads // size)[:, None] + 100 * (threads // size)).all()
    assert (result[2] == x[:, [1 % size]]).all()
    assert (result[3] == x[:, np.maximum(rank - 1, 0)]).all()
    assert (result[4] == x[:, np.minimum(rank + 1, size - 1)]).all()
    assert (result[5] == x[:, rank ^ 1 if size > 1 else rank]).all()
    bits = (1 << rank).astype(np.int64)
    assert (result[6].astype(np.uint32) == ((x % 2) @ bits)[:, None]).all()
    assert (result[7] == (x == 3).any(1, keepdims=True) + 10 * (x < 90).all(1, keepdims=True)).all()
    same = x[:, :, None] % 3 == x[:, None, :] % 3
    assert (result[8].astype(np.uint32) == same @ bits).all()
    assert (result[9] == x.sum(1, keepdims=True)).all()
    assert (result[10] == x.max(1, keepdims=True)).all()
    assert (result[11] == np.bitwise_xor.reduce(x, axis=1)[:, None]).all()
    assert (result[12] == x.cumsum(1)).all()
    assert (result[13] == x.cumsum(1) - x).all()


def test_tile_of_a_tile_and_a_group_chosen_at_run_time(library):
    result = np.zeros(64, np.int32)
    assert library.launch("tile_of_a_tile", 1, 64, result) is None
    thread = np.arange(64)
    expected = thread % 4 + 10 * (thread % 32 // 4) + 100 * 8 + 1000 * (thread % 16) + 100000 * 16
    assert (result == expected).all()


def test_coalesced_and_labeled_groups(library):
    result = np.full((9, 32), -7, np.int32)
    x = VALUES[:32].copy()
    assert library.launch("coalesced", 1, 32, x, result) is None
    third = np.arange(1, 32, 3)
    mine, n = x[third], third.size
    rank = np.arange(n)
    assert (result[0, third] == rank + 100 * n).all()
    assert (result[1, third] == mine[2]).all()
    assert (result[2, third] == mine[np.minimum(rank + 1, n - 1)]).all()
    assert (result[3, third] == ((mine > 50) << rank).sum()).all()
    assert (result[4, third] == mine.min()).all()
    assert (result[5, third] == mine.cumsum() - mine).all()
    assert (result[:6, np.setdiff1d(np.arange(32), third)] == -7).all()
    for lane in range(32):
        same = np.flatnonzero(x % 4 == x[lane] % 4)
        assert result[6, lane] == np.searchsorted(same, lane) + 100 * same.size
        assert result[8, lane] == (1 if same[0] == lane else -7)
        parity = np.flatnonzero(x % 2 == x[lane] % 2)
        assert result[7, lane] == parity.size + 100 * x[parity[0]]


@pytest.mark.parametrize("early", [0, 1])
def test_a_copy_by_a_block_lands_only_when_it_is_waited_for(library, early):
    x = np.arange(2 * 256, dtype=np.int32)
    y = np.zeros_like(x)
    assert library.launch("staged_copy", 2, 256, x, y, early) is None
    expected = np.full((2, 256), -1) if early else x.reshape(2, 256)[:, ::-1]
    assert (y.reshape(2, 256) == expected).all()


def test_the_grid_waits_for_all_its_blocks(library):
    x = np.arange(5 * 40, dtype=np.int32)
    assert library.launch("grid_sync", 5, 40, x, 7) is None
    assert (x == np.roll(np.arange(200), -7)).all()
    # a launch that is not cooperative fails
    assert "cooperative" in library.launch("grid_sync_without_cooperative", 5, 40, x, 7)


def test_faults_of_groups_name_the_users_line(library):
    result = np.zeros(32, np.int32)
    text = library.launch("tile_waits_for_an_exited_lane", 1, 32, result)
    assert "__shfl_sync with mask 0x0000ff00" in text and "exited" in text
    assert library.line("shuffle in a tile") in text
    text = library.launch("half_a_reduction", 1, 32, result)
    assert "__reduce_add_sync with mask 0x0000ffff" in text
    assert library.line("reduction of half a tile") in text


def test_atomic_references(library):
    blocks, threads = 50, 64
    n = blocks * threads
    integers = np.zeros(8, np.int32)
    integers[5] = -1
    total, precise, wide = np.zeros(1, np.float32), np.zeros(1), np.zeros(1, np.uint64)
    assert library.launch("references", blocks, threads, integers, total, precise, wide) is None
    index = np.arange(n, dtype=np.int32)
    assert integers[:5].tolist() == [n, n - 1, -(n - 1), 2**31 - 1, np.bitwise_xor.reduce(index)]
    assert integers[5:].tolist() == [-(2**31), -n, 2 * n]
    assert total[0] == n and precise[0] == n / 2 and wide[0] == n << 33


@pytest.mark.parametrize("threads", [2, 33, 256])
def test_threads_that_wait_for_an_atomic_let_the_others_run(library, threads):
    result = np.zeros(threads, np.int32)
    assert library.launch("relay", 1, threads, result) is None
    assert (result == np.arange(threads)[::-1]).all()


def test_an_atomic_can_be_a_lock(library):
    counter, lock = np.zeros(1, np.int32), np.zeros(1, np.int32)
    assert library.launch("locks", 6, 32, counter, lock) is None
    assert counter[0] == 6 * 32 and lock[0] == 0


def test_atomics_of_all_widths(library):
    n = 20 * 64
    narrow, wide, lowest = np.zeros(1, np.uint16), np.zeros(1, np.uint64), np.zeros(1, np.int64)
    storage = np.zeros(16, np.uint8)  # NumPy's own allocations of 16 bytes are aligned to 16
    widest = storage.view(np.uint64)
    pair, quad = np.zeros(2, np.float32), np.zeros(4, np.float32)
    assert widest.ctypes.data % 16 == 0
    assert library.launch("widths", 20, 64, narrow, wide, lowest, widest, pair, quad) is None
    assert narrow[0] == n and wide[0] == 2**40 + n - 1 and lowest[0] == -(2**40) - (n - 1)
    assert widest.tolist() == [n, 2**64 - n]
    assert pair.tolist() == [n, 2 * n] and quad.tolist() == [n, 2 * n, 3 * n, 4 * n]
