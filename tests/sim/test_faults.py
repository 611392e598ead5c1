"""A kernel's fault becomes a text with its place; the process, its other threads and later launches continue."""

import math
import os
import platform
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from support.simulator.compiled import SOURCES, Library, compile_source

pytestmark = pytest.mark.compiles


@pytest.fixture(scope="module", params=["assembly", pytest.param("ucontext", marks=pytest.mark.slow)])
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Library]:
    flags = ["-DTKJIT_SIM_UCONTEXT"] if request.param == "ucontext" else []
    return lambda name: compile_source(SOURCES / name, tmp_path_factory.mktemp(request.param), *flags)


@pytest.fixture(scope="module")
def library(compiled) -> Library:
    return compiled("language.cu")


@pytest.fixture(scope="module")
def faults(compiled) -> Library:
    return compiled("faults.cu")


@pytest.fixture(autouse=True)
def later_launches_work(library):
    """Check after each test that the next launch still works."""
    yield
    x = np.zeros(4 * 256, np.int32)
    assert library.launch("barriers", 4, 256, x, 10) is None
    assert (x == 1).all()


def test_deadlock_names_each_group_of_waiting_threads(library):
    text = library.launch("deadlock", 5, 96, np.zeros(96, np.int32))
    assert text.startswith("deadlock in block (")
    first, others = library.line("barrier of the first warp"), library.line("named barrier of the others")
    assert f"32 of 96 threads, (0, 0, 0) to (31, 0, 0), wait in __syncthreads ({first})" in text
    assert f"64 of 96 threads, (32, 0, 0) to (95, 0, 0), wait in a named barrier ({others})" in text


def test_two_kinds_of_barrier_do_not_meet(library):
    text = library.launch("divergent_barriers", 1, 32, 0)
    assert "__syncthreads_or" in text and "meets __syncthreads" in text
    assert f"thread (7, 0, 0) ({library.line('the other barrier')})" in text


def test_barriers_on_one_line_are_different_places(library):
    marks = ["barriers in code", "barriers of a macro", "barriers with a predicate"]
    for how, mark in enumerate(marks):
        text = library.launch("barriers_on_one_line", 1, 64, how)
        assert "divergent barrier: lanes of one warp reach __syncthreads" in text
        assert "from two places on this line" in text and library.line(mark) in text
    # different warps may be at different barriers
    assert library.launch("barriers_on_one_line", 1, 64, 3) is None


def test_a_mask_that_omits_the_caller_is_an_error(library):
    text = library.launch("mask_omits_caller", 1, 32, 0)
    assert "__shfl_sync with mask 0x0000ffff omits the calling lane 16" in text
    assert f"thread (16, 0, 0) ({library.line('half a mask')})" in text


@pytest.mark.parametrize("exited", [0, 5, 31])
def test_a_shuffle_from_a_lane_that_has_exited_is_an_error(library, exited):
    # Lane 0 exits before any lane reads it; the others exit while lower lanes wait.
    text = library.launch("mask_names_exited", 1, 32, exited)
    reader = 1 if exited == 0 else 0
    assert f"__shfl_sync with mask 0xffffffff: lane {reader} reads lane {exited}, which has exited" in text
    assert library.line("shuffle from an exited lane") in text


def test_two_warp_operations_do_not_meet(library):
    text = library.launch("mixed_operations", 1, 32, 0)
    assert "__shfl_xor_sync" in text and "lane 0 waits in __ballot_sync" in text
    assert library.line("shuffle meets ballot") in text


def test_a_failed_assert_reports_its_condition_and_place(library):
    text = library.launch("failing_assert", 4, 64, 130)
    assert text == (
        "assertion `int(blockIdx.x * blockDim.x + threadIdx.x) != n` failed, in block (2, 0, 0), thread (2, 0, 0)"
        f" ({library.line('the assertion')})"
    )
    assert library.launch("failing_assert", 4, 64, -1) is None


def test_a_trap_reports_its_place(library):
    text = library.launch("trapping", (1, 4), 64, 0)
    assert text == f"__trap(), in block (0, 2, 0), thread (3, 0, 0) ({library.line('the trap')})"


def test_an_endless_poll_is_a_deadlock(library):
    text = library.launch("polls_forever", 1, 64, 0)
    assert text.startswith("deadlock") and library.line("the poll") in text


@pytest.mark.skipif(platform.machine() != "x86_64", reason="divisions trap only on x86-64")
def test_all_divisions_of_the_smallest_integer_by_minus_one(faults):
    y = np.zeros((64, 2), np.int64)
    for form in range(15):
        y[:] = 7
        assert faults.launch("least_by_minus_one", 1, 64, y, form, -1) is None, form
        least = -(2**63) if form in (11, 12, 13) else -(2**31)
        assert (y == [least, 0]).all(), form
        for divisor in (0, 1) if form != 14 else (0,):
            text = faults.launch("least_by_minus_one", 1, 64, y, form, divisor)
            assert (text is None) == (divisor == 1), form
            if divisor == 0:
                assert text.startswith("an integer division by zero, in block (0, 0, 0), thread (0, 0, 0)"), form


@pytest.mark.parametrize("block", [0, 3, 7])
def test_a_fault_in_one_block_ends_a_cooperative_launch(faults, block):
    y = np.zeros(8, np.int32)
    for _ in range(3):
        text = faults.launch("fails_before_the_grid", 8, 64, y, block)
        assert f"through a null pointer, in block ({block}, 0, 0), thread (5, 0, 0)" in text
        assert faults.launch("fails_before_the_grid", 8, 64, y, 9) is None


@pytest.mark.parametrize(
    "grid, block, shared, what",
    [
        (1, 1025, 0, "block of (1025, 1, 1) threads is too large"),
        (1, (32, 33), 0, "block of (32, 33, 1) threads is too large"),
        (1, (1, 1, 65), 0, "block of (1, 1, 65) threads is too large"),
        (0, 32, 0, "is empty"),
        (1, 0, 0, "is empty"),
        ((1, 65536), 1, 0, "grid of (1, 65536, 1) blocks is too large"),
        (2**31, 1, 0, "grid of (2147483648, 1, 1) blocks is too large"),
        (1, 32, 227 * 1024 + 1, "232449 bytes of dynamic shared memory are too many: at most 232448"),
    ],
)
def test_a_launch_beyond_the_limits_is_an_error(library, grid, block, shared, what):
    assert what in library.launch("record_indices", grid, block, 0, shared=shared)


def test_other_blocks_stop_soon_after_a_fault(library):
    start = time.perf_counter()
    assert "assertion" in library.launch("failing_assert", 2_000_000, 64, 1)
    assert time.perf_counter() - start < 1.0


def test_four_threads_can_launch_at_once(library):
    failures = []

    def launch_many() -> None:
        for _ in range(200):
            x = np.zeros(3 * 64, np.int32)
            if library.launch("barriers", 3, 64, x, 5) is not None or not (x == 1).all():
                failures.append("barriers")
            if "trap" not in library.launch("trapping", (1, 3), 32, 0):
                failures.append("trap")

    threads = [threading.Thread(target=launch_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_any_number_of_workers_gives_the_same_result(library, workers):
    library.functions.set_workers(workers)
    try:
        x = np.zeros(500 * 64, np.int32)
        assert library.launch("barriers", 500, 64, x, 20) is None
        assert (x == 1).all()
    finally:
        library.functions.set_workers(0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_launch_works_after_a_fork_while_other_threads_launch(library):
    stop = threading.Event()

    def launch_until_stopped() -> None:
        while not stop.is_set():
            library.launch("barriers", 20, 64, np.zeros(20 * 64, np.int32), 10)

    thread = threading.Thread(target=launch_until_stopped)
    thread.start()
    try:
        for _ in range(10):
            assert _exit_status_of_child(library) == 0
    finally:
        stop.set()
        thread.join()


def _exit_status_of_child(library: Library) -> int:
    child = os.fork()
    if child == 0:
        x = np.zeros(200 * 64, np.int32)
        failed = library.launch("barriers", 200, 64, x, 50) is not None or not (x == 1).all()
        os._exit(int(failed))
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return math.inf  # type: ignore[return-value]
