"""Blocks that wait for each other share OS threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.define import define

import tkjit
from tkjit import InOut, LaunchError, Tensor

pytestmark = pytest.mark.compiles
RESIDENT = 148  # the number of multiprocessors of a B200
TOO_MANY = RESIDENT + (os.cpu_count() or 1) + 1  # each OS thread that has no block may begin one more
MEET = """
__device__ void meet(int* arrived, int blocks) {
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < blocks) {}
    }
    __syncthreads();
}
"""


@tkjit.kernel(
    MEET
    + """
    __global__ void keep(int* y, int* arrived, int blocks) {
        __shared__ int own[64];
        extern __shared__ int dynamic[];
        const int t = threadIdx.x, first = 64 * blockIdx.x;
        int local = first + t;
        own[t] = 2 * local;
        dynamic[t] = 3 * local;
        for (int round = 1; round <= 3; ++round) {
            meet(arrived, round * blocks);
            local += own[63 - t] - 2 * (first + 63 - t) + dynamic[63 - t] - 3 * (first + 63 - t);
            local += 1000 * (threadIdx.x != t) + 1000 * (64 * blockIdx.x != first);
        }
        y[first + t] = local;
    }
    """,
    entry="keep",
    args=True,
    grid="N // 64",
    block=64,
    shared_memory=256,
    computed={"blocks": "N // 64"},
)
def keep(y: InOut[Tensor, "int32", "N"], arrived: InOut[Tensor, "int32", 1]) -> None: ...


@pytest.mark.parametrize("blocks", [2, 50, RESIDENT])
def test_each_block_keeps_its_shared_memory_and_registers(blocks):
    for _ in range(3):
        y = torch.zeros(64 * blocks, dtype=torch.int32)
        keep(y, torch.zeros(1, dtype=torch.int32))
        assert torch.equal(y, torch.arange(64 * blocks, dtype=torch.int32))


@pytest.mark.slow
def test_one_block_too_many_is_a_deadlock():
    message = rf"deadlock in block \(\d+, 0, 0\)(.|\n)*cooperative=True in the spec; grid \({TOO_MANY}"
    with pytest.raises(LaunchError, match=message):
        keep(torch.zeros(64 * TOO_MANY, dtype=torch.int32), torch.zeros(1, dtype=torch.int32))
    test_each_block_keeps_its_shared_memory_and_registers(50)


def test_a_fault_ends_the_waiting_blocks():
    source = MEET + (
        "__global__ void fail(int* arrived, const int* zero) {"
        " if (blockIdx.x == 19) arrived[0] = int(blockIdx.x) / *zero; meet(arrived, 20); }"
    )
    fail = define(
        source,
        '(arrived: InOut[Tensor, "int32", 1], zero: In[Tensor, "int32", 1])',
        entry="fail",
        args=True,
        grid=20,
        block=64,
    )
    for _ in range(3):
        with pytest.raises(LaunchError, match=r"division by zero, in block \(19, 0, 0\)"):
            fail(torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32))
        test_each_block_keeps_its_shared_memory_and_registers(1)  # a single block, which waits for no other
    test_each_block_keeps_its_shared_memory_and_registers(50)


def test_a_lock_passes_through_all_threads_of_all_blocks():
    source = """
    __global__ void count(int* lock, int* sum) {
        while (atomicCAS(lock, 0, 1 + blockIdx.x) != 0) {}
        const int before = *static_cast<volatile int*>(sum);
        __nanosleep(1);
        *sum = before + 1;
        atomicExch(lock, 0);
    }
    """
    count = define(
        source,
        '(lock: InOut[Tensor, "int32", 1], sum: InOut[Tensor, "int32", 1])',
        entry="count",
        args=True,
        grid=40,
        block=32,
    )
    lock, total = torch.zeros(2, 1, dtype=torch.int32)
    count(lock, total)
    assert total.item() == 40 * 32


def test_a_busy_block_lets_the_waiting_blocks_run():
    """The second half of the blocks polls the first half in a collective, which counts as progress."""
    half = os.cpu_count() or 1
    source = """
    __global__ void pair(int* started, int* flags, int half) {
        const int own = blockIdx.x % half;
        if (int(blockIdx.x) < half) {
            if (threadIdx.x == 0) while (atomicAdd(started + own, 0) == 0) {}
            __syncthreads();
            if (threadIdx.x == 0) atomicExch(flags + own, 1);
        } else {
            if (threadIdx.x == 0) atomicExch(started + own, 1);
            while (!__any_sync(0xffffffff, atomicOr(flags + own, 0))) {}
        }
    }
    """
    pair = define(
        source,
        '(started: InOut[Tensor, "int32", "N"], flags: InOut[Tensor, "int32", "N"])',
        entry="pair",
        args=True,
        grid="2 * N",
        block=32,
        computed={"half": "N"},
    )
    started, flags = torch.zeros(2, half, dtype=torch.int32)
    pair(started, flags)
    assert flags.tolist() == [1] * half


def meet_on(devices: int) -> tkjit.Kernel:
    source = """
    __global__ void meet(const __grid_constant__ Globals g) {
        __shared__ int rank;
        int* const arrived = g.x[0].raw_ptr;
        if (threadIdx.x == 0) {
            rank = atomicAdd_system(arrived, 1);
            while (atomicAdd_system(arrived, 0) < BLOCKS) {}
        }
        __syncthreads();
        if (threadIdx.x == 1) g.x[g.dev_idx].raw_ptr[1 + blockIdx.x] = rank;
    }
    """.replace("BLOCKS", str(devices * RESIDENT))
    return define(source, '(x: InOut[ParallelTensor, "int32", "N"])', entry="meet", grid="N - 1", block=64)


@pytest.mark.parametrize("devices", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_all_blocks_of_several_devices_run_at_once(devices):
    meet = meet_on(devices)
    for _ in range(2):
        x = [torch.zeros(1 + RESIDENT, dtype=torch.int32) for _ in range(devices)]
        meet(x)
        assert torch.cat([one[1:] for one in x]).sort().values.tolist() == list(range(devices * RESIDENT))


@pytest.mark.slow
def test_waiting_blocks_need_few_os_threads():
    """With an OS thread for each block, there would be more than this limit."""
    code = """
import resource
import threading
from test_waiting_blocks import *
most = 0
def watch():
    global most
    while not over.wait(0.001):
        most = max(most, len(os.listdir("/proc/self/task")))
over = threading.Event()
before = len(os.listdir("/proc/self/task"))
threading.Thread(target=watch).start()
test_each_block_keeps_its_shared_memory_and_registers(RESIDENT)
over.set()
assert most <= before + 1 + os.cpu_count(), (most, before)
"""
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), str(here.parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
