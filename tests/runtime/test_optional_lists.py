"""Lists of tensors in which some items are None."""

from __future__ import annotations

import pytest
import torch

import tkjit
from tkjit import ArgumentError, In, InOut, Out, ShapeError, Tensor
from tkjit.spec.schema import schema_of
from tkjit.testing import check

pytestmark = pytest.mark.compiles
SOURCE = """
template <class T>
__global__ void total(const __grid_constant__ Globals g) {
    for (int i = threadIdx.x; i < g.y.cols(); i += blockDim.x) {
        float sum = 0;
        for (const auto& x : g.xs)
            if (x) sum += float(x[i]);
        g.y[i] = T(sum);
    }
}
"""
COUNT = """
__global__ void count(const __grid_constant__ Globals g) {
    for (const auto& x : g.xs)
        if (x) x[0] += 1;
}
"""
BOTH = ("float32", "float16")


@tkjit.kernel(SOURCE, entry="total<T>", grid=1, block=64, variants={"T": BOTH})
def total(xs: In[list[Tensor | None], "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor:
    return sum(x for x in xs if x is not None)


@tkjit.kernel(COUNT, entry="count", grid=1, block=1)
def count(xs: InOut[list[Tensor | None], "int32", 1]) -> None: ...


def test_tensors_may_be_none_anywhere():
    a, b = torch.randn(5), torch.randn(5)
    assert torch.equal(total([None, a, None, b]), a + b)
    assert torch.equal(total((a, None)), a)
    counters = [torch.zeros(1, dtype=torch.int32), None, torch.zeros(1, dtype=torch.int32)]
    count(counters), count([None, counters[0]])
    assert [int(each[0]) for each in counters if each is not None] == [2, 1]
    assert counters[0]._version == 2


def test_first_tensor_decides_the_shape_and_dtype_of_the_others():
    a = torch.randn(5)
    with pytest.raises(ShapeError, match=r"xs\[2\] is \(6,\) float32 on cpu; expected \(N=5,\) of xs\[1\]'s type"):
        total([None, a, torch.randn(6)])
    with pytest.raises(ArgumentError, match=r"xs\[2\] is 3 \(int\)"):
        total([None, a, 3])
    for empty in ([None], [None, None]):
        with pytest.raises(ArgumentError, match="expected a list with a tensor that is not None"):
            total(empty)


def test_output_must_not_share_memory_with_any_of_them():
    a = torch.randn(5)
    with pytest.raises(ArgumentError, match=r"the output y shares memory with xs\[1\]"):
        total([None, a], out=a)


def test_operator_takes_optional_lists():
    a, b = torch.randn(5), torch.randn(5)
    assert schema_of(total.specs[0]) == "total(Tensor?[] xs) -> Tensor"
    assert schema_of(count.specs[0]) == "count(Tensor(a!)?[] xs) -> ()"
    assert torch.equal(torch.compile(total, fullgraph=True, backend="aot_eager")([None, a, b]), a + b)
    torch.library.opcheck(tkjit.load(total).operator.default, ([None, a, b],))
    # torch 2.13 cannot functionalize any operator that writes to such a list
    eager = ("test_schema", "test_autograd_registration", "test_faketensor")
    counters = [None, torch.zeros(1, dtype=torch.int32)]
    torch.library.opcheck(tkjit.load(count).operator.default, (counters,), test_utils=eager)
    x = torch.ones(3, 5)
    assert torch.equal(torch.vmap(lambda row: total([None, row]))(x), x)
    with pytest.raises(ArgumentError, match=r"xs\[1\] .*requires a gradient"):
        total([None, a.clone().requires_grad_()])


@pytest.mark.slow
def test_checker_passes_none_in_lists():
    assert not check(total).findings
