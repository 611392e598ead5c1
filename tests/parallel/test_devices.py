"""Kernels over several devices in one process: on the CPU a device is a host thread under the simulator."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.devices import SOURCE, numbers, parts, signals, total

import tkjit
from tkjit import ArgumentError, In, InOut, LaunchError, Out, ParallelTensor, ShapeError, Tensor

pytestmark = pytest.mark.compiles


def starts_with(code: str) -> tkjit.Kernel:
    """The kernel ``total``, with this code before its barriers."""

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


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_each_device_gets_its_own_tensors_and_all_parts(count):
    x = parts(count, 100)
    y = total(x, numbers(count), signals(count))
    assert isinstance(y, list) and len(y) == count
    for i, result in enumerate(y):
        torch.testing.assert_close(result, sum(x) * (i + 1) + i)


def test_a_parallel_layout_can_be_an_argument():
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


def test_tuples_and_arrays_of_other_frameworks_can_be_parts():
    x = parts(2, 10)
    result = total(tuple(a.numpy() for a in x), numbers(2), signals(2))
    assert all(isinstance(a, np.ndarray) for a in result)
    np.testing.assert_allclose(result[0], sum(x).numpy(), rtol=1e-6, atol=1e-6)


def test_results_become_arrays_of_the_callers_framework_after_they_are_written():
    class Copying(np.ndarray):
        """An array of a framework that copies what it is given."""

        def __array_namespace__(self, api_version=None):
            return SimpleNamespace(from_dlpack=lambda tensor: np.from_dlpack(tensor).copy())

    x = parts(2, 10)
    y = total([a.numpy().view(Copying) for a in x], numbers(2), signals(2))
    for i, result in enumerate(y):
        np.testing.assert_allclose(result, (sum(x) * (i + 1) + i).numpy(), rtol=1e-6, atol=1e-6)


# ---- rejected arguments


def test_invalid_lists_are_rejected_with_the_name_of_the_argument():
    x, own, flags = parts(3, 10), numbers(3), signals(3)

    def refused(error: type[Exception], *args: object, **kwargs: object) -> str:
        with pytest.raises(error) as caught:
            total(*args, **kwargs)
        return str(caught.value)

    like = "expected a tensor like x[0]: parallel parts have the same shape, dtype and kind of device"
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
    assert "the club's devices are 2 x cpu" in refused(ArgumentError, x, own, flags, club=tkjit.Club(["cpu"] * 2))
    assert all(not flag.any() for flag in flags)


def test_a_part_that_requires_a_gradient_is_rejected():
    x = [torch.ones(10), torch.ones(10, requires_grad=True)]
    with pytest.raises(ArgumentError, match=r"x\[1\] .*requires a gradient"):
        total(x, numbers(2), signals(2))


def test_no_device_is_launched_if_an_argument_of_one_is_wrong():
    x, y = parts(2, 10), [torch.full((10,), 7.0), torch.full((11,), 7.0)]
    with pytest.raises(ShapeError, match=r"y is \(11,\) float32"):
        total(x, numbers(2), signals(2), y=y)
    assert (y[0] == 7).all()


def test_two_devices_cannot_write_to_the_same_memory():
    x, flags = parts(2, 10), signals(2)
    with pytest.raises(ArgumentError, match=r"signals\[1\] shares memory with signals\[0\]"):
        total(x, numbers(2), [flags[0]] * 2)
    y = torch.empty(10)
    with pytest.raises(ArgumentError, match=r"y\[1\] shares memory with y\[0\]"):
        total(x, numbers(2), flags, y=[y, y])
    with pytest.raises(ArgumentError, match=r"the output y shares memory with x\[1\]"):
        total(x, numbers(2), flags, y=[x[1], y])
    torch.testing.assert_close(total([x[0]] * 2, numbers(2), flags)[0], 2 * x[0])  # devices may read the same memory


def test_out_takes_a_list_with_the_output_of_each_device():
    x, y = parts(2, 10), [torch.empty(10), torch.empty(10)]
    result = total(x, numbers(2), signals(2), out=y)
    assert [a.data_ptr() for a in result] == [a.data_ptr() for a in y]
    torch.testing.assert_close(y[0], sum(x))


# ---- errors on a device


def test_an_error_on_one_device_aborts_the_others_and_is_raised():
    start = time.monotonic()
    with pytest.raises(LaunchError, match=r"total: on device 2: .*trap"):
        total(parts(4, 10), numbers(4), signals(4), fails=2)
    assert time.monotonic() - start < 10
    torch.testing.assert_close(total(parts(4, 10), numbers(4), signals(4))[0], sum(parts(4, 10)))


def test_ctrl_c_ends_a_step_that_waits_for_a_device():
    missing = signals(2)
    missing[1][:] = 1  # as if the other device had arrived at a barrier that it never leaves
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


def test_a_barrier_can_have_fewer_threads_than_devices():
    @tkjit.kernel(SOURCE, entry="total<T>", grid=1, block=3, variants={"T": ("float32",)})
    def few(
        x: In[ParallelTensor, "T", "N"], own: In[Tensor, "T", 1], signals: InOut[ParallelTensor, "int32", "S"],
        y: Out[Tensor, "T", "N"], meetings: int = 2, fails: int = -1,
    ) -> Tensor: ...  # fmt: skip

    x = parts(8, 10)
    torch.testing.assert_close(few(x, numbers(8), signals(8))[0], sum(x))


def test_waiting_blocks_can_be_a_cooperative_grid():
    @tkjit.kernel(SOURCE, entry="total<T>", grid=7, block=8, cooperative=True, variants={"T": ("float32",)})
    def at_once(
        x: In[ParallelTensor, "T", "N"], own: In[Tensor, "T", 1], signals: InOut[ParallelTensor, "int32", "S"],
        y: Out[Tensor, "T", "N"], meetings: int = 2, fails: int = -1,
    ) -> Tensor: ...  # fmt: skip

    x = parts(3, 10)
    torch.testing.assert_close(at_once(x, numbers(3), signals(3))[2], sum(x) * 3 + 2)


# ---- deadlocks


@pytest.mark.slow
def test_a_wait_for_a_device_that_has_ended_is_a_deadlock():
    with pytest.raises(LaunchError) as caught:
        starts_with("if (g.dev_idx == 1) return;")(parts(4, 10), numbers(4), signals(4))
    text = str(caught.value)
    reporting = re.search(r"on device (\d): deadlock in block \(0, 0, 0\)", text)  # any device may report it first
    assert reporting
    # thread i of a block waits for the flag of device i
    assert "1 of 64 threads, (1, 0, 0) wait in a wait for other devices" in text
    others = " and ".join(sorted({"0", "2", "3"} - {reporting[1]}))
    assert f"\n  device 1 has ended, devices {others} wait as well" in text


@pytest.mark.slow
def test_devices_that_all_wait_are_a_deadlock():
    flags = signals(2)
    flags[0][0] = flags[1][1] = 1  # as a failed step may leave them
    with pytest.raises(LaunchError, match=r"(?s)deadlock .*\n  device \d waits as well; .*zero the signals"):
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
def test_devices_that_compute_for_long_in_turns_are_not_a_deadlock():
    """Each device computes longer than the timeout of a deadlock, in one case after barriers within its block."""

    def agrees(between: str) -> bool:
        in_turns = starts_with(f"""
            if (g.dev_idx == 1) {{ {WORK} }}
            tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);
            if (g.dev_idx == 0) {{ {between} {WORK} }}
        """)
        x = parts(2, 10)
        return bool(torch.allclose(in_turns(x, numbers(2), signals(2), club=tkjit.Club(["cpu"] * 2))[0], sum(x)))

    with ThreadPoolExecutor() as pool:
        assert all(pool.map(agrees, ["", "for (int i = 0; i < 300; ++i) __syncthreads();"]))


@pytest.mark.slow
def test_blocks_at_a_grid_sync_while_another_waits_for_a_device_are_a_deadlock():
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


def test_check_rejects_a_kernel_over_several_devices():
    with pytest.raises(tkjit.SpecError, match="runs on several devices, but check simulates only one"):
        __import__("tkjit.testing").testing.check("all_reduce")
