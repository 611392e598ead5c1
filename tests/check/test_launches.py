"""Several launches of host code: dependent ones, and memory that host code allocates."""

from __future__ import annotations

from functools import partial

import pytest
from support.define import define, host_function

from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
slow = partial(pytest.param, marks=pytest.mark.slow)

DEPENDENT = """
#include <cuda_runtime.h>

__global__ void first(float* y, const float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    IN_FIRST
    if (i < n) y[i] = 2 * x[i];
}

__global__ void second(float* z, const float* y, const float* x, int n) {
    __shared__ float reversed[64];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) reversed[threadIdx.x] = x[i];
    IN_SECOND
    if (i < n) z[i] = y[i] + reversed[threadIdx.x];
}

void both(float* x, float* y, float* z, int n) {
    const dim3 grid((n + 63) / 64);
    first<<<grid, 64>>>(y, x, n);
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = DEPENDENT;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = 64;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, second, z, static_cast<const float*>(y), static_cast<const float*>(x), n);
}
"""
SIGNATURE = (
    '(x: In[Tensor, "float32", "n"], y: InOut[Tensor, "float32", "n"], z: InOut[Tensor, "float32", "n"], n: int)'
)


@pytest.mark.parametrize(
    ("places", "finds"),
    [
        ({"IN_SECOND": "cudaGridDependencySynchronize();"}, False),
        slow({"IN_SECOND": 'asm volatile("griddepcontrol.wait;" ::: "memory");'}, False),
        ({"DEPENDENT": "0"}, False),
        # one thread of the block waits, and then the others learn of it
        slow({"IN_SECOND": "if (threadIdx.x == 0) cudaGridDependencySynchronize(); __syncthreads();"}, False),
        ({"IN_FIRST": "cudaTriggerProgrammaticLaunchCompletion();"}, True),
        slow({"IN_SECOND": "if (threadIdx.x == 0) cudaGridDependencySynchronize();"}, True),
    ],
)
def test_a_dependent_launch_waits_before_it_reads(places, finds):
    source = DEPENDENT
    for place, text in {"IN_FIRST": "", "IN_SECOND": "", "= DEPENDENT": "= 1"}.items():
        source = source.replace(place, places.get(place, text))
    source = source.replace("Allowed = 1", f"Allowed = {places.get('DEPENDENT', '1')}")
    kernel = host_function(source, "both", SIGNATURE, constraints="n > 0")
    try:
        report = check(kernel, modes=["race"], strict=True)
    except KernelCheckError as error:
        report = error.report
    assert bool(report.findings) == finds
    if finds:
        (finding,) = report.findings
        lines = source.splitlines()
        assert "z[i] = y[i]" in lines[finding.here.line - 1] and "y[i] = 2 * x[i]" in lines[finding.there.line - 1]
        assert "call cudaGridDependencySynchronize() (griddepcontrol.wait) first" in finding.text


WITH_PDL = """
__global__ void doubled(Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    WAIT
    if (i < g.x.numel()) g.y[i] = 2 * g.x[i];
}
"""


@pytest.mark.parametrize("wait", ["cudaGridDependencySynchronize();", ""])
def test_a_kernel_with_pdl_waits_before_it_uses_a_tensor(wait):
    signature = '(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor'
    source = WITH_PDL.replace("WAIT", wait)
    kernel = define(source, signature, entry="doubled", grid="cdiv(N, 64)", block=64, pdl=True)
    if wait:
        assert check(kernel, modes=["race"], strict=True).findings == []
        return
    with pytest.raises(KernelCheckError) as caught:
        check(kernel, modes=["race"])
    for finding in caught.value.report.findings:
        assert "is used before the thread has waited for the launch before this one" in finding.text
        assert "g.y[i] = 2 * g.x[i]" in source.splitlines()[finding.here.line - 1]


ALLOCATED = """
#include <cuda_runtime.h>

__global__ void turn(float* work, const float* x, int n) {
    const int i = threadIdx.x;
    if (i < n) work[i] = x[i];
    BETWEEN
    if (i == 0) work[n] = work[n - 1] + work[n + 1];
}
__global__ void copy(float* y, const float* work, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = work[threadIdx.x];
}

void turned(float* x, float* y, int n) {
    float* work = nullptr;
    cudaMalloc(&work, (n + 2) * sizeof(float));
    BEFORE
    turn<<<1, 128>>>(work, x, n);
    copy<<<1, 128>>>(y, work, n);
    cudaFree(work);
}
"""
TURNED = '(x: In[Tensor, "float32", "n"], y: InOut[Tensor, "float32", "n"], n: int)'
ZEROED = "cudaMemset(work, 0, (n + 2) * sizeof(float));"


@pytest.mark.parametrize(
    ("before", "between", "kinds"),
    [
        (ZEROED, "__syncthreads();", set()),
        ("", "__syncthreads();", {"uninitialized"}),
        ("cudaMemset(work + n + 1, 0, sizeof(float));", "__syncthreads();", set()),
        slow(ZEROED, "", {"race"}),
    ],
)
def test_memory_that_host_code_allocates(before, between, kinds):
    source = ALLOCATED.replace("BEFORE", before).replace("BETWEEN", between)
    kernel = host_function(source, "turned", TURNED, constraints=["n > 1", "n <= 128"])
    try:
        report = check(kernel, modes=["race", "init"])
    except KernelCheckError as error:
        report = error.report
    assert {finding.kind for finding in report.findings} == kinds
    for finding in report.findings:
        line = next(i for i, text in enumerate(source.splitlines(), 1) if "cudaMalloc" in text)
        assert f"memory allocated at inline.cu:{line} + " in finding.text
