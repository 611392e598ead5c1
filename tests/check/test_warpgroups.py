"""Registers that warps pass to each other, and values from lanes that a shuffle does not name."""

from __future__ import annotations

import re
from functools import partial

import pytest
from support.define import define

import tkjit
from tkjit import In, Out, Tensor
from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
slow = partial(pytest.param, marks=pytest.mark.slow)

VECTORS = '(x: In[Tensor, "float32", 384], y: Out[Tensor, "float32", 384]) -> Tensor'
REGISTERS = """
#include <tkjit/registers.cuh>

__global__ void __launch_bounds__(384, 1) registers(Globals g) {
    if (threadIdx.x < 128) {
        tkjit::decrease_registers<PRODUCER>();
    } else {
        tkjit::increase_registers<CONSUMER>();
    }
    g.y[threadIdx.x] = g.x[threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("producer", "consumer", "text"),
    [
        (40, 232, ""),
        (24, 240, ""),
        # https://forums.developer.nvidia.com/t/about-setmaxnreg/356190
        (80, 224, "the warps ask for 67584 registers, but begin with at most 64512, because a block of 384 threads"),
    ],
)
def test_registers_that_are_not_there(producer, consumer, text):
    source = REGISTERS.replace("PRODUCER", str(producer)).replace("CONSUMER", str(consumer))
    kernel = define(source, VECTORS, entry="registers", grid=1, block=384)
    if not text:
        assert check(kernel, modes=["race"], strict=True).findings == []
        return
    with pytest.raises(KernelCheckError) as caught:
        check(kernel, modes=["race"])
    (finding,) = caught.value.report.findings
    assert finding.kind == "fault" and text in finding.text
    assert "increase_registers" in source.splitlines()[finding.here.line - 1]


@pytest.mark.parametrize(
    ("threads", "text"),
    [
        ("x < 113", r"setmaxnreg: the lanes of a warp ask for \d+ and \d+ registers"),
        # one elected lane, as in DeepGEMM's sm90_tf32_hc_prenorm_gemm
        (
            "x >= 1) return; if (threadIdx.x == 0",
            "setmaxnreg with mask 0xffffffff waits for lane 1, thread .*, which has exited",
        ),
    ],
)
def test_a_warp_takes_registers_together(threads, text):
    source = REGISTERS.replace("PRODUCER", "40").replace("CONSUMER", "232").replace("x < 128", threads)
    kernel = define(source, VECTORS, entry="registers", grid=1, block=384)
    with pytest.raises(KernelCheckError) as caught:
        check(kernel, modes=["race"])
    assert any(finding.kind == "fault" and re.search(text, finding.text) for finding in caught.value.report.findings)


def test_a_warpgroup_executes_setmaxnreg_with_all_its_warps():
    source = REGISTERS.replace("PRODUCER", "40").replace("CONSUMER", "232").replace("x < 128", "x < 96")
    kernel = define(source, VECTORS, entry="registers", grid=1, block=384)
    with pytest.raises(KernelCheckError) as caught:
        check(kernel, modes=["race"])
    (finding,) = caught.value.report.findings
    assert finding.kind == "fault" and "all warps of a warpgroup must execute it" in finding.text
    assert "increase_registers" in source.splitlines()[finding.here.line - 1]


SHUFFLE = """
__global__ void shuffled(Globals g) {
    const int lane = threadIdx.x;
    float x = g.x[lane];
    if (lane < 16) {
        for (int by = FIRST; by > 0; by /= 2) x += __shfl_down_sync(0xffff, x, by);
    }
    if (lane == 0) g.y[0] = x;
}
"""


@pytest.mark.parametrize(("first", "kinds"), [(8, set()), (16, {"order", "result"})])
def test_values_of_lanes_outside_of_the_mask(first, kinds):
    """Lanes 8 to 15 get values of lanes outside of the mask as well, but they do not use them."""

    @tkjit.kernel(SHUFFLE.replace("FIRST", str(first)), entry="shuffled", grid=1, block=32)
    def shuffled(x: In[Tensor, "float32", 32], y: Out[Tensor, "float32", 1]) -> Tensor:
        return x[:16].sum().reshape(1)

    try:
        report = check(shuffled, modes=["order"])
    except KernelCheckError as error:
        report = error.report
    assert {finding.kind for finding in report.findings} == kinds
