"""A kernel with a race, a correct kernel, and a function that returns the checker's findings."""

from __future__ import annotations

import pytest

import tkjit
from tkjit import In, Out, Tensor
from tkjit.testing import KernelCheckError, check

F32 = "float32"


def reverse(source: str, **options):
    """Return a kernel of one block that reverses 128 numbers, with a source from the test."""
    options = {"entry": "reverse", "grid": 1, "block": 128, **options}

    @tkjit.kernel(source, **options)
    def reverse(x: In[Tensor, F32, 128], y: Out[Tensor, F32, 128]) -> Tensor:
        return x.flip(0)

    return reverse


RACY = """__global__ void reverse(Globals g) {
    __shared__ float tile[128];
    tile[threadIdx.x] = g.x[threadIdx.x];
    g.y[threadIdx.x] = tile[127 - threadIdx.x];
}"""
CLEAN = RACY.replace("    g.y", "    __syncthreads();\n    g.y")


def found(kernel, *args, **options):
    with pytest.raises(KernelCheckError) as caught:
        check(kernel, *args, **options)
    return caught.value.report.findings
