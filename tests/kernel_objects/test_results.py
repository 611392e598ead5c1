"""Host functions that return a number."""

from __future__ import annotations

import pytest
import torch

import tkjit
from tkjit import ArgumentError, CompileError, In, InOut, Out, SpecError, Tensor
from tkjit.testing import check

pytestmark = pytest.mark.compiles
SOURCE = """
__global__ void square(float* x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] *= x[i];
}
float sum_of_squares(float* x, int n, cudaStream_t stream) {
    square<<<1, 32, 0, stream>>>(x, n);
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    return sum;
}
"""
COUNT = """
int64_t count(Globals g) {
    int64_t found = int64_t(1) << 40;
    for (int i = 0; i < g.x.cols(); ++i) found += g.x[i] > g.above;
    return found;
}
bool any(Globals g) { return count(g) > int64_t(1) << 40; }
"""


@tkjit.kernel(SOURCE, entry="sum_of_squares", host=True, args=True, computed={"n": "N"})
def sum_of_squares(x: InOut[Tensor, "float32", "N"]) -> float: ...


@tkjit.kernel(COUNT, entry="count", host=True)
def count(x: In[Tensor, "float32", "N"], above: float = 0.0) -> int: ...


@tkjit.kernel(COUNT, entry="any", host=True)
def is_above(x: In[Tensor, "float32", "N"], above: float = 0.0) -> bool: ...


def test_call_returns_the_number():
    x = torch.tensor([1.0, 2.0, 3.0])
    assert sum_of_squares(x) == 14.0 and x.tolist() == [1, 4, 9]
    assert count(x) == 2**40 + 3 and count(x, above=3.0) == 2**40 + 2
    assert is_above(x) is True and is_above(x, 9.0) is False
    assert count(torch.empty(0)) == 2**40  # called although there is nothing to write


@pytest.mark.slow
def test_checker_runs_host_functions():
    assert not check(sum_of_squares).findings


def test_preparing_and_tracing_are_rejected():
    with pytest.raises(ArgumentError, match="it returns int, a new value on each call"):
        count.prepare(torch.ones(3))
    with pytest.raises(Exception, match="it returns a number, which a trace cannot represent"):
        torch.compile(count, fullgraph=True, backend="eager")(torch.ones(3))


def test_wrong_return_type():
    @tkjit.kernel(COUNT, entry="count", host=True)
    def wrong(x: In[Tensor, "float32", "N"], above: float = 0.0) -> float: ...

    with pytest.raises(CompileError, match="a different type from the one that its spec declares"):
        wrong(torch.ones(3))


def test_only_host_functions_without_outputs_return_a_number():
    def launched(x: In[Tensor, "float32", "N"]) -> float: ...
    def with_output(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> float: ...

    with pytest.raises(SpecError, match="a host function can, but a kernel cannot"):
        tkjit.kernel(COUNT, entry="count", grid=1, block=1)(launched)
    with pytest.raises(SpecError, match="a host function can, but one with outputs cannot"):
        tkjit.kernel(COUNT, entry="count", host=True)(with_output)
