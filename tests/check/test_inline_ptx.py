"""Findings in sources that are adapted with their headers: names and places of variables in shared memory."""

from __future__ import annotations

import re

import pytest
import torch
from support.sampling import sample

import tkjit
from tkjit import InOut, Tensor
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles

HEADER = """#pragma once
__device__ inline void put(float* shared, float x) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"((unsigned)__cvta_generic_to_shared(shared)), "f"(x));
}
__device__ inline void meet() { asm volatile("bar.sync 0;" ::: "memory"); }
"""
SOURCE = """#include "of_library.cuh"
__global__ void turned(float* x, int n) {
    __shared__ float tile[64], other[2];
    put(&tile[threadIdx.x], x[threadIdx.x]);
    if (threadIdx.x == 0) put(other, 0);
    meet();
    x[threadIdx.x] = tile[63 - threadIdx.x] + other[0];
}
"""


def report(directory, source: str, mode: str) -> str:
    (directory / "of_library.cuh").write_text(HEADER)
    path = directory / "turned.cu"
    path.write_text(source)

    @tkjit.kernel(path, entry="turned", args=True, computed={"n": "N"}, grid=1, block=64, constraints=["N == 64"])
    def turned(x: InOut[Tensor, "float32", "N"]) -> None: ...

    try:
        check(turned, torch.randn(64), modes=[mode])
    except KernelCheckError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("mode", sample(["memory", "race", "init"], "race"))
def test_a_clean_kernel_has_no_findings(mode, tmp_path):
    assert report(tmp_path, SOURCE, mode) == ""


def test_a_race_names_the_variables_and_the_lines_of_source_and_header(tmp_path):
    found = report(tmp_path, SOURCE.replace("    meet();\n", ""), "race")
    assert "two accesses to other + " in found and "bytes in shared memory" in found
    assert re.search(r"of_library\.cuh:3, called at \S*turned\.cu:5\n", found) and re.search(r"turned\.cu:6\n", found)


def test_an_uninitialized_read_is_found(tmp_path):
    found = report(tmp_path, SOURCE.replace("if (threadIdx.x == 0) put(other, 0);", ""), "init")
    assert "other + 0 bytes in shared memory is read before any thread of the block has written it" in found


@pytest.mark.parametrize(
    "access, side", [("tile[70 - threadIdx.x]", "after"), ("tile[-1 - (int)threadIdx.x]", "before")]
)
def test_an_access_outside_the_variables_is_found(access, side, tmp_path):
    found = report(tmp_path, SOURCE.replace("tile[63 - threadIdx.x]", access), "memory")
    assert f"{side} tile" in found and "turned.cu:7" in found


def test_each_block_starts_with_uninitialized_variables(tmp_path):
    """Blocks reuse a window of shared memory, but a block must not see the values of the previous one."""
    path = tmp_path / "first_only.cu"
    path.write_text(
        '__global__ void f(float* x) { __shared__ float a; asm volatile("");\n'
        "    if (blockIdx.x == 0) a = 1;\n    x[blockIdx.x] = a; }"
    )

    @tkjit.kernel(path, entry="f", args=True, grid=2, block=1)
    def f(x: InOut[Tensor, "float32", "N"]) -> None: ...

    with pytest.raises(KernelCheckError, match=r"a \+ 0 bytes in shared memory is read.*\n.*block \(1, 0, 0\)"):
        check(f, torch.zeros(2), modes=["init"])


def test_a_launch_does_not_know_the_variables_of_the_previous_one(tmp_path):
    path = tmp_path / "two.cu"
    path.write_text("""
    __global__ void first(float* x) {
        __shared__ float early[512];
        asm volatile("");
        early[threadIdx.x] = 1;
        x[0] = early[threadIdx.x];
    }
    __global__ void second(float* x) { __shared__ float late[2]; late[0] = 1; x[0] = late[200]; }
    void f(float* x) { first<<<1, 1>>>(x); second<<<1, 1>>>(x); }
    """)

    @tkjit.kernel(path, entry="f", args=True, host=True)
    def f(x: InOut[Tensor, "float32", "N"]) -> None: ...

    with pytest.raises(KernelCheckError, match=r"bytes after late, which has 8 bytes"):
        check(f, torch.zeros(1), modes=["memory"])


@pytest.mark.slow
def test_blocks_that_run_concurrently_have_separate_windows(tmp_path):
    path = tmp_path / "together.cu"
    path.write_text("""
    #include <cooperative_groups.h>
    __global__ void together(float* x) {
        __shared__ float own;
        extern __shared__ float tile[];
        asm volatile("");
        own = tile[threadIdx.x] = blockIdx.x;
        cooperative_groups::this_grid().sync();
        if (threadIdx.x == 0) x[blockIdx.x] = own + tile[0];
    }
    """)

    @tkjit.kernel(path, entry="together", args=True, grid="N", block=1, shared_memory=4, cooperative=True)
    def together(x: InOut[Tensor, "float32", "N"]) -> None: ...

    for _ in range(5):
        check(together, torch.zeros(64), modes=["memory", "race"])
