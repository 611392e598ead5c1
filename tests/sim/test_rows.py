"""Threads that begin in a row, without the scheduler: whoever needs to know about them gets the truth."""

from __future__ import annotations

import re

import pytest
import torch

import tkjit
from tkjit import InOut, LaunchError, Tensor

pytestmark = pytest.mark.compiles


def kernel_of(body: str, block="(40, 3)"):
    source = f"""
    __global__ void rows(Globals g) {{
        const int x = threadIdx.x, i = x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        {body}
    }}
    """

    @tkjit.kernel(source, entry="rows", grid=1, block=block)
    def rows(y: InOut[Tensor, "int32", "N"]) -> None: ...

    return rows


@pytest.mark.parametrize("first", [0, 1, 5, 39])
def test_threads_that_wait_follow_threads_that_do_not(first):
    """The first threads of each row end at once, and the others wait, in the middle of the row."""
    body = f"""
        __shared__ int seen[120];
        if (x < {first}) {{
            g.y[i] = -i;
            return;
        }}
        seen[i] = i;
        __syncwarp();
        __syncthreads();
        const int other = 119 - i;
        g.y[i] = other % 40 < {first} ? 1000 : seen[other];
    """
    y = torch.zeros(120, dtype=torch.int32)
    kernel_of(body)(y)
    for i in range(120):
        assert y[i] == (-i if i % 40 < first else 1000 if (119 - i) % 40 < first else 119 - i)


def test_each_thread_has_its_own_index():
    y = torch.zeros(2 * 3 * 5, dtype=torch.int32)
    kernel_of("g.y[i] = 100 * threadIdx.z + 10 * threadIdx.y + threadIdx.x;", "(2, 3, 5)")(y)
    assert y.tolist() == [100 * z + 10 * y + x for z in range(5) for y in range(3) for x in range(2)]


def test_lanes_that_have_ended_are_not_active():
    body = "if (x == 20) g.y[0] = int(__activemask()); if (x == 35) g.y[1] = int(__activemask());"
    y = torch.zeros(2, dtype=torch.int32)
    kernel_of(body, 40)(y)
    assert y.tolist() == [1 << 20, 1 << 3]


@pytest.mark.parametrize(
    "fault",
    [
        "assert(x != 37 || threadIdx.y != 1);",
        "g.y[i] = 7 / (i - 77);",
        "if (i == 77) g.y[120] = 1;",
        "if (i == 77) __trap();",
    ],
)
def test_a_fault_names_its_thread(fault):
    rows = kernel_of(fault)
    y = torch.zeros(120, dtype=torch.int32)
    with pytest.raises(LaunchError, match=re.escape("thread (37, 1, 0)")):
        rows(y)


def test_a_division_that_overflows_leaves_the_row_as_it_is():
    """On x86, the division raises a signal, after which the thread continues."""
    smallest = -(2**31)
    y = torch.arange(241, dtype=torch.int32)
    y[17], y[240], y[120:240] = smallest, -1, 0
    kernel_of("g.y[i] /= g.y[240]; g.y[120 + i]++;")(y)
    assert y[:120].tolist() == [smallest if i == 17 else -i for i in range(120)]
    assert y[120:240].tolist() == [1] * 120


def test_a_deadlock_counts_the_threads_that_have_ended():
    body = 'if (x == 20) asm volatile("bar.sync 1, 64;");'
    with pytest.raises(LaunchError, match=r"39 of 40 threads, \(0, 0, 0\) to \(39, 0, 0\), have exited"):
        kernel_of(body, 40)(torch.zeros(1, dtype=torch.int32))
