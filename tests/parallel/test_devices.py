"""Kernels over several devices in one process: on the CPU a device is a host thread under the simulator."""

from __future__ import annotations

import gc
import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tkjit
from tkjit import ArgumentError, In, InOut, LaunchError, Out, ParallelTensor, Scalar, ShapeError, Tensor

pytestmark = pytest.mark.compiles
SOURCE = """
#include <tkjit/device_barrier.cuh>

template <typename T>
__global__ void total(const __grid_constant__ Globals g) {
    if (g.fails == g.dev_idx) __trap();
    for (int i = 0; i < g.meetings; ++i) tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);
    for (int i = threadIdx.x; i < g.x.cols(); i += blockDim.x) {
        T sum = 0;
        for (int device = 0; device < g.num_devices; ++device) sum += g.x[device][i];
        g.y[i] = sum * g.own[0] + T(g.dev_idx);
    }
}
"""


@tkjit.kernel(SOURCE, entry="total<T>", grid=1, block=64, variants={"T": ("float32", "float64")})
def total(
    x: In[ParallelTensor, "T", "N"],
    own: In[Tensor, "T", 1],
    signals: InOut[ParallelTensor, "int32", "S"],
    y: Out[Tensor, "T", "N"],
    meetings: int = 1,
    fails: int = -1,
) -> Tensor:
    """A sum over devices, times a number of each device's own, plus the device's number."""


def starts_with(code: str) -> tkjit.Kernel:
    """The kernel, with other code before its meetings."""

    @tkjit.kernel(
        SOURCE.replace("if (g.fails == g.dev_idx) __trap();", code),
        entry="total<T>",
        grid=1,
        block=64,
        variants={"T": ("float32",)},
    )
    def changed(
        x: In[ParallelTensor, "T", "N"], own: In[Tensor, "T", 1], signals: InOut[ParallelTensor, "int32", "S"],
        y: Out[Tensor, "T", "N"], meetings: int = 1, fails: int = -1,
    ) -> Tensor: ...  # fmt: skip

    return changed


def parts(count: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    return [torch.randn(*shape, generator=generator).to(dtype) for _ in range(count)]


def signals(count: int) -> list[torch.Tensor]:
    return [torch.zeros(64 * count, dtype=torch.int32) for _ in range(count)]


def threads() -> int:
    """How many threads this process has."""
    return len(list(Path("/proc/self/task").iterdir()))


def numbers(count: int) -> list[torch.Tensor]:
    return [torch.full((1,), float(i + 1)) for i in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_each_device_gets_its_own_tensors_and_all_parts(count):
    x = parts(count, 100)
    y = total(x, numbers(count), signals(count))
    assert isinstance(y, list) and len(y) == count
    for i, result in enumerate(y):
        torch.testing.assert_close(result, sum(x) * (i + 1) + i)


def test_a_parallel_layout_may_be_an_argument():
    @tkjit.kernel(
        """
        #include <tkjit/pgl.h>
        __global__ void add(tkjit::pgl<float> x, float* y, int dev_idx, int num_devices) {
            const int i = threadIdx.x;
            for (int device = 0; device < num_devices; ++device) y[i] += x[device][i] * (dev_idx + 1);
        }
        """,
        entry="add",
        args=True,
        grid=1,
        block="N",
        computed={"dev_idx": "dev_idx", "num_devices": "num_devices"},
    )
    def add(x: In[ParallelTensor, "float32", "N"], y: InOut[Tensor, "float32", "N"]) -> Tensor: ...

    x, y = parts(3, 10), [torch.zeros(10) for _ in range(3)]
    for i, result in enumerate(add(x, y)):
        torch.testing.assert_close(result, sum(x) * (i + 1))


def test_given_outputs_are_written_and_returned():
    x, y = parts(2, 10), [torch.empty(10), torch.empty(10)]
    result = total(x, numbers(2), signals(2), y=y)
    assert [a.data_ptr() for a in result] == [a.data_ptr() for a in y]
    torch.testing.assert_close(y[1], sum(x) * 2 + 1)


def test_tuples_and_arrays_of_other_frameworks_are_parts_too():
    x = parts(2, 10)
    result = total(tuple(a.numpy() for a in x), numbers(2), signals(2))
    assert all(isinstance(a, np.ndarray) for a in result)
    np.testing.assert_allclose(result[0], sum(x).numpy(), rtol=1e-6)


def test_results_become_arrays_of_the_callers_framework_when_they_are_written():
    class Copying(np.ndarray):
        """An array of a framework that copies what it is given."""

        def __array_namespace__(self, api_version=None):
            return SimpleNamespace(from_dlpack=lambda tensor: np.from_dlpack(tensor).copy())

    x = parts(2, 10)
    y = total([a.numpy().view(Copying) for a in x], numbers(2), signals(2))
    for i, result in enumerate(y):
        np.testing.assert_allclose(result, (sum(x) * (i + 1) + i).numpy(), rtol=1e-6)


# ---- refusals


def test_lists_that_do_not_fit_are_refused_by_name():
    x, own, flags = parts(3, 10), numbers(3), signals(3)

    def refused(error: type[Exception], *args: object, **kwargs: object) -> str:
        with pytest.raises(error) as caught:
            total(*args, **kwargs)
        return str(caught.value)

    like = "expected a tensor like x[0]: parallel parts have one shape, type and kind of device"
    assert (
        refused(ArgumentError, [*x[:2], torch.ones(11)], own, flags) == f"total: x[2] is (11,) float32 on cpu; {like}"
    )
    assert "x[1] is (10,) float64 on cpu" in refused(ArgumentError, [x[0], x[1].double(), x[2]], own, flags)
    assert "expected a list of 3 tensors, one for each device" in refused(ArgumentError, x, own[:2], flags)
    assert "expected a list of 3 tensors, one for each device" in refused(ArgumentError, x, own, flags[:2])
    assert "own is (1,) float32 on cpu; expected a list with a tensor" in refused(ArgumentError, x, own[0], flags)
    assert "x is (10,) float32 on cpu; expected a tkjit.ParallelTensor, or a list" in refused(
        ArgumentError, x[0], own[0], flags[0]
    )
    assert "x[1] is 3 (int); expected a torch.Tensor" in refused(ArgumentError, [x[0], 3, x[2]], own, flags)
    assert "expected lists of 1 to 32 tensors" in refused(ArgumentError, [], [], [])
    assert "expected lists of 1 to 32 tensors" in refused(ArgumentError, x * 11, own * 11, flags * 11)
    assert "own is (2,) float32 on cpu; expected (1,)" in refused(ShapeError, x, [torch.ones(2)] * 3, flags)
    assert "stream= is for one device" in refused(ArgumentError, x, own, flags, stream=0)
    assert "club is 3 (int); expected a tkjit.Club" in refused(ArgumentError, x, own, flags, club=3)
    assert "the club is of 2 of the cpu" in refused(ArgumentError, x, own, flags, club=tkjit.Club(["cpu"] * 2))
    assert all(not flag.any() for flag in flags)


def test_a_part_with_a_gradient_is_refused():
    x = [torch.ones(10), torch.ones(10, requires_grad=True)]
    with pytest.raises(ArgumentError, match=r"x\[1\] .*requires a gradient"):
        total(x, numbers(2), signals(2))


def test_nothing_is_launched_where_one_device_is_refused():
    x, y = parts(2, 10), [torch.full((10,), 7.0), torch.full((11,), 7.0)]
    with pytest.raises(ShapeError, match=r"y is \(11,\) float32"):
        total(x, numbers(2), signals(2), y=y)
    assert (y[0] == 7).all()


def test_what_a_device_writes_is_its_own():
    x, flags = parts(2, 10), signals(2)
    with pytest.raises(ArgumentError, match=r"signals\[1\] shares memory with signals\[0\]"):
        total(x, numbers(2), [flags[0]] * 2)
    y = torch.empty(10)
    with pytest.raises(ArgumentError, match=r"y\[1\] shares memory with y\[0\]"):
        total(x, numbers(2), flags, y=[y, y])
    with pytest.raises(ArgumentError, match=r"the output y shares memory with x\[1\]"):
        total(x, numbers(2), flags, y=[x[1], y])
    torch.testing.assert_close(total([x[0]] * 2, numbers(2), flags)[0], 2 * x[0])  # what is read may be the same


def test_out_is_a_list_with_what_each_device_gets():
    x, y = parts(2, 10), [torch.empty(10), torch.empty(10)]
    result = total(x, numbers(2), signals(2), out=y)
    assert [a.data_ptr() for a in result] == [a.data_ptr() for a in y]
    torch.testing.assert_close(y[0], sum(x))


# ---- errors of a device


def test_an_error_of_one_device_ends_the_others_and_is_raised():
    start = time.monotonic()
    with pytest.raises(LaunchError, match=r"total: on device 2: .*trap"):
        total(parts(4, 10), numbers(4), signals(4), fails=2)
    assert time.monotonic() - start < 10
    torch.testing.assert_close(total(parts(4, 10), numbers(4), signals(4))[0], sum(parts(4, 10)))


def test_ctrl_c_ends_a_step_that_waits_for_a_device():
    missing = signals(2)
    missing[1][:] = 1  # as if the other device had come to a meeting that it never leaves
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        total(parts(2, 10), numbers(2), missing, meetings=1000000000)


def test_ctrl_c_ends_a_step_whose_first_part_is_done():
    first_leaves = starts_with("if (g.dev_idx == 0) return;")
    first_leaves(parts(2, 10), numbers(2), signals(2), meetings=0)
    start = time.monotonic()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        first_leaves(parts(2, 10), numbers(2), signals(2))
    assert 0.4 < time.monotonic() - start < 10


def test_a_meeting_may_have_fewer_threads_than_devices():
    @tkjit.kernel(SOURCE, entry="total<T>", grid=1, block=3, variants={"T": ("float32",)})
    def few(
        x: In[ParallelTensor, "T", "N"], own: In[Tensor, "T", 1], signals: InOut[ParallelTensor, "int32", "S"],
        y: Out[Tensor, "T", "N"], meetings: int = 2, fails: int = -1,
    ) -> Tensor: ...  # fmt: skip

    x = parts(8, 10)
    torch.testing.assert_close(few(x, numbers(8), signals(8))[0], sum(x))


def test_blocks_that_wait_may_ask_to_run_at_once():
    @tkjit.kernel(SOURCE, entry="total<T>", grid=7, block=8, cooperative=True, variants={"T": ("float32",)})
    def at_once(
        x: In[ParallelTensor, "T", "N"], own: In[Tensor, "T", 1], signals: InOut[ParallelTensor, "int32", "S"],
        y: Out[Tensor, "T", "N"], meetings: int = 2, fails: int = -1,
    ) -> Tensor: ...  # fmt: skip

    x = parts(3, 10)
    torch.testing.assert_close(at_once(x, numbers(3), signals(3))[2], sum(x) * 3 + 2)


# ---- devices that wait in vain


def test_a_device_that_waits_for_one_that_has_ended_is_a_deadlock():
    with pytest.raises(LaunchError) as caught:
        starts_with("if (g.dev_idx == 1) return;")(parts(4, 10), numbers(4), signals(4))
    text = str(caught.value)
    who = re.search(r"on device (\d): deadlock in block \(0, 0, 0\)", text)  # each of them may find it first
    assert who
    # a flag for each device: that of device 1 is what is waited for
    assert "1 of 64 threads, (1, 0, 0) wait in a wait for other devices" in text
    others = " and ".join(sorted({"0", "2", "3"} - {who[1]}))
    assert f"\n  device 1 has ended, devices {others} wait as well" in text


def test_devices_that_all_wait_are_a_deadlock():
    flags = signals(2)
    flags[0][0] = flags[1][1] = 1  # as a step that failed may leave them
    with pytest.raises(LaunchError, match=r"(?s)deadlock .*\n  device \d waits as well; .*signals have to be zeroed"):
        total(parts(2, 10), numbers(2), flags)


@pytest.mark.slow
def test_a_device_that_waits_for_itself_is_a_deadlock():
    flags = signals(1)
    flags[0][:] = 1
    with pytest.raises(LaunchError, match=r"on device 0: deadlock in block"):
        total(parts(1, 10), numbers(1), flags)


WORK = """
        if (threadIdx.x == 0) {
            volatile float heat = 0;
            timespec begin, now;
            clock_gettime(CLOCK_MONOTONIC, &begin);
            do {
                for (int i = 0; i < 100000; ++i) heat = heat + 1;
                clock_gettime(CLOCK_MONOTONIC, &now);
            } while ((now.tv_sec - begin.tv_sec) + 1e-9 * (now.tv_nsec - begin.tv_nsec) < 6);
        }
"""


@pytest.mark.slow
def test_devices_that_work_in_turns_for_long_are_waited_for():
    """Each longer than the patience with devices that all wait; barriers of its own may follow a wait, or none."""

    def agrees(between: str) -> bool:
        in_turns = starts_with(f"""
            if (g.dev_idx == 1) {{ {WORK} }}
            tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);
            if (g.dev_idx == 0) {{ {between} {WORK} }}
        """)
        x = parts(2, 10)
        return bool(torch.allclose(in_turns(x, numbers(2), signals(2), club=tkjit.Club(["cpu"] * 2))[0], sum(x)))

    with ThreadPoolExecutor() as both:
        assert all(both.map(agrees, ["", "for (int i = 0; i < 300; ++i) __syncthreads();"]))


@pytest.mark.slow
def test_blocks_that_sync_the_grid_while_one_waits_for_a_device_are_a_deadlock():
    @tkjit.kernel(
        "#include <cooperative_groups.h>\n" + SOURCE.replace(
            "if (g.fails == g.dev_idx) __trap();",
            "if (g.dev_idx == 1) return;\n if (blockIdx.x) cooperative_groups::this_grid().sync();",
        ),
        entry="total<T>", grid=3, block=8, cooperative=True, variants={"T": ("float32",)},
    )  # fmt: skip
    def meets(
        x: In[ParallelTensor, "T", "N"], own: In[Tensor, "T", 1], signals: InOut[ParallelTensor, "int32", "S"],
        y: Out[Tensor, "T", "N"], meetings: int = 1, fails: int = -1,
    ) -> Tensor: ...  # fmt: skip

    with pytest.raises(LaunchError, match=r"on device 0: deadlock in block \(0, 0, 0\)(?s:.*)device 1 has ended"):
        meets(parts(2, 10), numbers(2), signals(2))


# ---- clubs


def test_a_club_runs_functions_in_its_devices_threads():
    club = tkjit.Club(["cpu"] * 4)
    seen = [0] * 4

    def note(dev_idx: int) -> None:
        seen[dev_idx] = threading.get_ident()

    club.execute(note)
    assert len(set(seen)) == 4 and seen[0] == threading.get_ident()
    first = list(seen)
    club.execute(note)
    assert seen == first  # each device keeps its thread
    assert len(club) == 4 and repr(club) == "<tkjit.Club of 4 cpu devices>"
    assert club.devices == (torch.device("cpu"),) * 4


def test_what_a_clubs_functions_raise_is_raised_with_a_note_of_the_others():
    def fail(dev_idx: int) -> None:
        if dev_idx:
            raise ValueError(f"device {dev_idx}")

    with pytest.raises(ValueError, match="device 1") as caught:
        tkjit.Club(["cpu"] * 3).execute(fail)
    notes = getattr(caught.value, "__notes__", ["on device 1 of 3", "and on device 2: ValueError: device 2"])
    assert notes == ["on device 1 of 3", "and on device 2: ValueError: device 2"]


def test_all_devices_work_at_once():
    meeting = threading.Barrier(4)
    tkjit.Club(["cpu"] * 4).execute(lambda dev_idx: meeting.wait(20))


def test_a_club_of_one_device_has_no_thread():
    before = threads()
    club = tkjit.Club(["cpu"])
    club.execute(lambda dev_idx: None)
    total(parts(1, 10), numbers(1), signals(1), club=club)
    assert threads() <= before


def test_a_given_club_launches_and_can_be_closed_and_used_again():
    x = parts(2, 10)
    with tkjit.Club(["cpu"] * 2) as club:
        torch.testing.assert_close(total(x, numbers(2), signals(2), club=club)[0], sum(x))
    before = threads()
    club.close()
    torch.testing.assert_close(total(x, numbers(2), signals(2), club=club)[0], sum(x))
    club.close()
    assert threads() <= before


def test_a_clubs_threads_end_with_it():
    gc.collect()
    before = threads()
    club = tkjit.Club(["cpu"] * 8)
    club.execute(lambda dev_idx: None)
    assert threads() == before + 7
    del club
    gc.collect()
    assert threads() == before


def test_one_club_serves_many_threads_each_with_its_own_errors():
    x, wanted, failures = parts(3, 10), sum(parts(3, 10)), []

    def call(fails: int) -> None:
        for _ in range(30):
            try:
                good = torch.allclose(total(x, numbers(3), signals(3), fails=fails)[0], wanted, atol=1e-6)
                failures.extend([] if good and fails < 0 else [f"{fails} came through"])
            except LaunchError as error:
                failures.extend([] if f"on device {fails}: " in str(error) else [str(error)])

    callers = [threading.Thread(target=call, args=(fails,)) for fails in (-1, 2, -1, 1)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert not failures


def test_a_step_within_a_step_is_refused():
    club, said = tkjit.Club(["cpu"] * 2), []

    def nested(dev_idx: int) -> None:
        with pytest.raises(LaunchError) as caught:
            club.execute(lambda i: None)
        said.append(str(caught.value))

    club.execute(nested)
    assert said == ["a club's step cannot begin another step of the same club"] * 2
    tkjit.Club(["cpu"] * 2).execute(lambda dev_idx: club.execute(lambda i: None))  # of another one it may


def test_functions_run_as_their_caller_would():
    seen: list[bool] = [True] * 3

    def note(dev_idx: int) -> None:
        seen[dev_idx] = torch.is_grad_enabled()

    with torch.no_grad():
        tkjit.Club(["cpu"] * 3).execute(note)
    assert seen == [False] * 3


def test_a_club_is_closed_after_the_step_that_is_under_way():
    club, done = tkjit.Club(["cpu"] * 3), []
    caller = threading.Thread(target=club.execute, args=(lambda dev_idx: (time.sleep(0.3), done.append(dev_idx)),))
    caller.start()
    time.sleep(0.1)
    club.close()
    assert sorted(done) == [0, 1, 2]
    caller.join()


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ([], "0 devices; expected 1 to 32"),
        (["cpu"] * 33, "33 devices; expected 1 to 32"),
        (["cpu", "meta"], "devices of the kinds cpu, meta"),
        (["nonsense"], "nonsense"),
        ([99], "there is no cuda:99; torch sees"),
        ("cuda:0", "devices is 'cuda:0'; expected how many CUDA devices, or a list"),
        (True, "devices is True; expected"),
        (None, "devices is None; expected"),
    ],
)
def test_devices_that_cannot_be_a_club(devices, said):
    with pytest.raises(ArgumentError) as caught:
        tkjit.Club(devices)
    assert said in str(caught.value)


def test_the_cpu_has_no_streams():
    with pytest.raises(ArgumentError, match="streams= is for CUDA devices"):
        tkjit.Club(["cpu"] * 2, [None, None])


def test_peer_access_is_nothing_to_the_cpu():
    tkjit.enable_peer_access(["cpu"] * 4)
    with pytest.raises(ArgumentError, match="0 devices"):
        tkjit.enable_peer_access([])


PROGRAM = """
import os, sys
import torch, tkjit
x = [torch.full((100,), float(i)) for i in range(4)]
flags = [torch.zeros(128, dtype=torch.int32) for _ in range(4)]
gather = tkjit.load("all_gather")
rows = [a[None] for a in x]
assert torch.equal(gather(rows, flags)[3], torch.stack(x))
"""


@pytest.mark.slow
def test_after_a_fork_the_child_has_threads_of_its_own(python):
    code = """
pid = os.fork()
assert torch.equal(gather(rows, flags)[3], torch.stack(x))
if pid:
    assert os.waitpid(pid, 0)[1] == 0
    assert torch.equal(gather(rows, flags)[3], torch.stack(x))
    print("both")
sys.stdout.flush()
os._exit(0)
"""
    assert python(PROGRAM + code) == "both\n"


def test_a_program_ends_while_its_clubs_are_open(python):
    assert python(f"{PROGRAM}\nclub = tkjit.Club(['cpu'] * 3)\nclub.execute(lambda i: None)\nprint('done')") == "done\n"


def test_a_program_ends_while_a_thread_of_its_is_in_a_step(python):
    code = """
import threading, time
def steps():
    while True:
        gather(rows, flags)
threading.Thread(target=steps, daemon=True).start()
time.sleep(0.3)
print("ended")
"""
    assert python(PROGRAM + code) == "ended\n"


# ---- make_globals


def test_make_globals_shows_what_each_device_would_get():
    x, own = parts(2, 10), numbers(2)
    first, second = tkjit.make_globals(total, x, own, signals(2), meetings=3)
    assert second["x"].data_ptrs == tuple(a.data_ptr() for a in x) and second["x"].dev_idx == 1
    assert second["x"].extents == (1, 1, 1, 10) and second["x"].dtype == "float32" and second["x"].multicast_ptr == 0
    assert second["own"].data_ptr == own[1].data_ptr() and first["own"].data_ptr == own[0].data_ptr()
    assert first["meetings"] == 3 and first["fails"] == -1
    assert first["y"].data_ptr == first.result[0].data_ptr() and list(first) == list(total.specs[0].order)


def test_make_globals_compiles_and_launches_nothing(seeded, compiler):
    @tkjit.kernel("this is no C++ {", entry="nothing", grid=1, block=1)
    def nothing(x: InOut[Tensor, "float32", "N"], n: Scalar[int, "int64_t"] = -5) -> Tensor: ...

    x = torch.ones(3)
    (found,) = tkjit.make_globals(nothing, x)
    assert found["x"].data_ptr == x.data_ptr() and found["n"] == -5 and found.result is x
    with pytest.raises(ArgumentError, match="x is 3"):
        tkjit.make_globals(nothing, 3)


def test_globals_hold_the_tensors_that_they_point_to():
    (found,) = tkjit.make_globals("axpy", torch.full((1000,), 3.0), torch.zeros(1000))
    gc.collect()
    torch.empty(1000).fill_(9)  # which would take the memory, if it were free
    data = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * 1000).from_address(found["x"].data_ptr))
    assert (data == 3).all()


def test_a_kernel_over_several_devices_is_not_checked_on_one():
    with pytest.raises(tkjit.SpecError, match="runs on several devices, and a check runs one"):
        __import__("tkjit.testing").testing.check("all_reduce")


# ---- collectives

DTYPES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [2, 5, 8])
@pytest.mark.parametrize("n", [1, 8, 1000, 20011])
def test_all_reduce_gives_all_devices_the_same_bits(n, count, dtype):
    x, flags = parts(count, n, dtype=dtype), signals(count)
    wanted = sum(part.float() for part in x).to(dtype)
    for y in tkjit.load("all_reduce_one_shot")(x, flags):
        assert torch.equal(y, wanted)
    assert tkjit.load("all_reduce")(x, flags) is None
    assert all(torch.equal(part, wanted) for part in x)
    assert all(not flag.any() for flag in flags)


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("shape", [(1, 1), (5, 8), (64, 33)])
def test_all_gather_and_reduce_scatter(shape, count):
    rows, columns = shape
    x, flags = parts(count, rows, columns), signals(count)
    for y in tkjit.load("all_gather")(x, flags):
        assert torch.equal(y, torch.cat(x))
    x = parts(count, rows * count, columns)
    for y, wanted in zip(tkjit.load("reduce_scatter")(x, flags), sum(x).chunk(count), strict=True):
        assert torch.equal(y, wanted)


def test_reduce_scatter_refuses_rows_that_cannot_be_shared():
    with pytest.raises(ShapeError, match=r"the constraint M % num_devices == 0 does not hold \(M=5, num_devices=2\)"):
        tkjit.load("reduce_scatter")(parts(2, 5, 4), signals(2))


@pytest.mark.parametrize("count", [2, 4])
def test_gemm_all_reduce(count):
    a, b = parts(count, 200, 70), parts(count, 70, 150)
    c, partial = [torch.empty(200, 150) for _ in a], [torch.empty(200, 150) for _ in a]
    tkjit.load("gemm_all_reduce")(a, b, c, partial, signals(count))
    torch.testing.assert_close(c[0], sum(left @ right for left, right in zip(a, b, strict=True)), atol=1e-4, rtol=1e-4)
    assert all(torch.equal(part, c[0]) for part in c)


def test_signals_that_are_too_few_are_refused():
    with pytest.raises(ShapeError, match=r"S >= 32 \* num_devices does not hold"):
        tkjit.load("all_reduce")(parts(2, 8), [torch.zeros(63, dtype=torch.int32) for _ in range(2)])


def test_the_references_say_the_same():
    count = 3
    x, flags = parts(count, 6, 4), signals(count)
    for name in ("all_gather", "reduce_scatter"):
        kernel = tkjit.find(name)
        for y, wanted in zip(tkjit.load(name)(x, flags), kernel.reference(x, flags), strict=True):
            torch.testing.assert_close(y, wanted)
