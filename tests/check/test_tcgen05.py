"""Missing waits and fences in tensor memory (`tcgen05`), and memory there that nothing has written.

Source: PTX ISA, "tcgen05 memory consistency model".
"""

from __future__ import annotations

import re
from functools import partial

import pytest
import torch
from support.tcgen05.kernels import SOURCES, define_for_blackwell, moved, multiplied, multiplied_by_pair, squares

from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
slow = partial(pytest.param, marks=pytest.mark.slow)
SOURCE = (SOURCES / "chain.cu").read_text()
MATRICES = '(a: In[Tensor, "bfloat16", 128, 16], b: In[Tensor, "bfloat16", 64, 16], c: Out[Tensor, "float32", 128, 64])'


def with_mistakes(*marks: str) -> str:
    """Return the source without the lines that end with a mark; lines that begin with one are enabled."""
    source = SOURCE
    for mark in marks:
        assert f"// {mark}\n" in source or f"//{mark}//" in source, mark
        source = re.sub(rf"^.*// {mark}$", "", source, flags=re.MULTILINE).replace(f"//{mark}// ", "")
    return source


def findings(*marks: str) -> list[str]:
    """Return the kind and the two accesses of each finding and warning."""
    kernel = define_for_blackwell(with_mistakes(*marks), MATRICES, entry="chain", block=256)
    try:
        report = check(kernel, modes=["race", "init"], strict=True)
    except KernelCheckError as error:
        report = error.report
    return [
        f"{one.kind}: {' after '.join(side.access for side in (one.here, one.there) if side)}"
        for one in report.findings
    ]


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([], []),
        # of A, and of B twice; as in https://github.com/sgl-project/sglang/pull/39124
        (["proxy fence"], 3 * ["proxy: asynchronous read after write"]),
        (["load wait"], ["tcgen05: read after tcgen05.ld", "race: tcgen05.dealloc after tcgen05.ld"]),
        slow(["first wait"], ["race: tcgen05.ld after tcgen05 write", "uninitialized: tcgen05.ld"]),
        slow(["store wait"], ["race: tcgen05 read after tcgen05.st", "race: tcgen05.dealloc after tcgen05.st"]),
        slow(["meeting"], ["race: tcgen05 read after tcgen05.st", "uninitialized: tcgen05 read"]),
        # the second warps of each quarter of the lanes may not have read what the first ones overwrite
        (["alias"], ["race: tcgen05.st after tcgen05.ld"]),
        (["reuse"], ["race: asynchronous read after write"]),
        slow(
            ["second wait", "results"],
            ["race: asynchronous read after write", "race: tcgen05.dealloc after tcgen05 write", "unwritten: "],
        ),
        slow(["adds first"], ["uninitialized: tcgen05 write"]),
        slow(["after the first product"], ["fence: tcgen05.ld after tcgen05 write"]),
        slow(["before the second product"], ["fence: tcgen05 read after tcgen05.st"]),
        slow(["at the second product"], ["fence: tcgen05 read after tcgen05.st"]),
        slow(["first commit"], ["fault: wait"]),
    ],
)
def test_a_missing_step(marks, expected):
    assert sorted(findings(*marks)) == sorted(expected)


def test_nothing_is_found_in_kernels_that_are_right():
    """With pairs of blocks, scales, all shapes of loads, and blocks that take the work of others."""
    bytes_of = partial(torch.zeros, dtype=torch.uint8)
    words = partial(torch.tensor, dtype=torch.int32)
    bf16_product = 1 << 4 | 1 << 7 | 1 << 10 | 64 >> 3 << 17
    scaled_product = 1 << 7 | 1 << 10 | 64 >> 3 << 17 | 256 >> 4 << 24
    calls = [
        (moved, words([3, 1])),
        (
            multiplied,
            bytes_of(4096),
            bytes_of(8192),
            words([0, bf16_product | 64 >> 4 << 24, 0, 2, 1024, 128, 1024, 128, 0]),
        ),
        (
            multiplied,
            bytes_of(4096),
            bytes_of(8192),
            words([0, bf16_product | 128 >> 4 << 24, 1, 2, 0, 0, 1024, 128, 0]),
        ),
        (multiplied_by_pair, *pair_of(0, bf16_product | 128 >> 4 << 24)),
        (multiplied_by_pair, *pair_of(3, scaled_product)),
        (squares, torch.zeros(5)),
    ]
    for kernel, *arguments in calls:
        check(kernel, *arguments, modes=["race"], strict=True)


def pair_of(kind: int, instruction: int) -> list[torch.Tensor]:
    operands = [torch.zeros(2, size, dtype=torch.uint8) for size in (4096, 4096, 512, 512)]
    return [*operands, torch.tensor([kind, instruction, 2048, 512], dtype=torch.int32)]


def test_a_statement_that_loads_and_waits():
    source = """
    #include "tensor_memory.cuh"

    __global__ void loaded(Globals g) {
        __shared__ uint32_t slot;
        const uint32_t memory = allocate(&slot, 32), own = memory + (threadIdx.x / 32 << 21);
        uint32_t words[2];
        asm volatile("tcgen05.st.sync.aligned.32x32b.x2.b32 [%0], {%1, %1};" :: "r"(own), "r"(threadIdx.x));
        asm volatile("tcgen05.wait::st.sync.aligned;");
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%0, %1}, [%2]; tcgen05.wait::ld.sync.aligned;"
                     : "=r"(words[0]), "=r"(words[1]) : "r"(own));
        int sum = 0;
        for (uint32_t word : words) sum += word;
        g.y[threadIdx.x] = g.x[threadIdx.x] + sum;
        free_all(memory, 32);
    }
    """
    signature = '(x: In[Tensor, "int32", 128], y: Out[Tensor, "int32", 128]) -> Tensor'
    check(define_for_blackwell(source, signature, entry="loaded"), modes=["race"], strict=True)
