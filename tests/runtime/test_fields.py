"""Calls with optional fields, alignment, dims, constraints, several outputs, and expressions over them."""

import pytest
import torch
from support.define import define, floats

import tkjit
from tkjit import Align, ArgumentError, In, InOut, Out, ShapeError, Tensor

pytestmark = pytest.mark.compiles

COPY = "template <class T> __global__ void copy(Globals g) { g.y[threadIdx.x] = g.x[threadIdx.x]; }"


@tkjit.kernel(
    """
    __global__ void add(Globals g) {
        const int i = threadIdx.x;
        g.y[i] = g.x[i] + (g.bias ? g.bias[i] : -1.f) + (g.offset ? 100.f * g.offset.value : 0.f) + g.count.value_or(7);
    }
    """,
    entry="add",
    grid=1,
    block="N",
)
def optional_fields(
    x: In[Tensor, "float32", "N"],
    bias: In[Tensor, "float32", "N"] | None = None,
    offset: float | None = None,
    count: int | None = None,
    *,
    y: Out[Tensor, "float32", "N"] = None,
) -> Tensor: ...


def test_optional_fields():
    x = floats(1, 2)
    assert optional_fields(x).tolist() == [7, 8]
    assert optional_fields(x, None, None, None).tolist() == [7, 8]
    assert optional_fields(x, floats(10, 20)).tolist() == [18, 29]
    assert optional_fields(x, offset=0.0, count=0).tolist() == [0, 1]
    assert optional_fields(x, floats(10, 20), 1.0, 2).tolist() == [113, 124]
    with pytest.raises(ShapeError, match=r"optional_fields: bias is \(3,\) float32 on cpu; expected \(N=2,\) float32"):
        optional_fields(x, floats(1, 2, 3))


@tkjit.kernel("__global__ void f(Globals g) { g.x[0] += g.y[0]; }", entry="f", grid=1, block=1)
def aligned(x: InOut[Tensor, "float32", "N", Align(16)], y: In[Tensor, "float32", "M"]) -> Tensor: ...


def test_misaligned_view_is_rejected():
    memory = torch.ones(16)
    assert memory.data_ptr() % 16 == 0
    assert aligned(memory[4:8], memory[1:3])[0].item() == 2
    before = memory.clone()
    with pytest.raises(tkjit.ArgumentError) as raised:
        aligned(memory[5:9], memory)
    assert str(raised.value) == (
        "aligned: x starts at an address that is not a multiple of 16 bytes (a view with an offset?); pass a copy of x"
    )
    assert torch.equal(memory, before)
    assert aligned(memory[5:9].clone(), memory)[0].item() == 2


@tkjit.kernel(
    """
    __global__ void halve(Globals g) {
        const int row = blockIdx.x, i = threadIdx.x;
        g.y(row, i) = g.x(row, 2 * i) + g.half(0, i);
        if (i == 0) g.sums[row] = g.y.cols() * 100 + blockDim.x;
    }
    """,
    entry="halve",
    grid="M",
    block="P",
    dims={"P": "Q - 1", "Q": "N // 2 + 1"},
    constraints=["N % 2 == 0", "0 < N <= 64", "step == 1"],
)
def halve(
    x: In[Tensor, "float32", "M", "N"],
    half: In[Tensor, "float32", "N // 2"],
    step: int = 1,
    *,
    y: Out[Tensor, "float32", "M", "P"] = None,
    sums: Out[Tensor, "int32", "max(M, 1)"] = None,
) -> tuple[Tensor, Tensor]: ...


def test_derived_dims_expression_dims_and_several_outputs():
    x = torch.arange(12, dtype=torch.float32).view(2, 6)
    result = halve(x, floats(100, 200, 300))
    assert result._fields == ("y", "sums") and type(result).__name__ == "halve_result"
    assert result.y.tolist() == [[100, 202, 304], [106, 208, 310]]
    assert result.sums.tolist() == [303, 303] and result.sums.dtype == torch.int32
    y, sums = result
    assert y is result.y and sums is result.sums


def test_outputs_may_be_passed_together_by_name_or_in_part():
    x, half = torch.zeros(1, 4), floats(1, 2)
    expected = halve(x, half)
    y, sums = torch.empty(1, 2), torch.empty(1, dtype=torch.int32)
    result = halve(x, half, out=(y, sums))
    assert result.y is y and result.sums is sums
    assert torch.equal(y, expected.y) and torch.equal(sums, expected.sums)
    partly = halve(x, half, out=(None, sums))
    assert partly.sums is sums and torch.equal(partly.y, y) and partly.y is not y
    named = halve(x, half, sums=sums)
    assert named.sums is sums and torch.equal(named.y, y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            lambda: (torch.zeros(1, 4), floats(1, 2, 3)),
            "halve: half is (3,) float32 on cpu; expected (N // 2=2,) float32; dim 0 is 3, but N // 2=2",
        ),
        (lambda: (torch.zeros(1, 3), floats(1)), "halve: the constraint N % 2 == 0 does not hold (N=3)"),
        (lambda: (torch.zeros(1, 66), torch.zeros(33)), "halve: the constraint 0 < N <= 64 does not hold (N=66)"),
        (lambda: (torch.zeros(1, 2), floats(1), 2), "halve: the constraint step == 1 does not hold (step=2)"),
    ],
)
def test_dims_and_constraints_that_do_not_hold(arguments, message):
    with pytest.raises(ShapeError) as raised:
        halve(*arguments())
    assert str(raised.value) == message


@tkjit.kernel(
    """
    __global__ void fill(Globals g) {
        static_assert(decltype(g.table){}.rows() == 2 && decltype(g.table){}.cols() == 3);
        const int row = blockIdx.x;
        for (int i = 0; i < g.x.cols(); ++i)
            g.y[row * g.y.cols() + i] = g.x[row * g.x.cols() + i] + g.table(1, 2)
                + 1000 * g.x.batch() + 100 * g.x.depth() + 10 * g.x.rows();
    }
    """,
    entry="fill",
    grid="x.batch * x.depth * x.rows",
    block=1,
)
def leading(
    x: In[Tensor, "int32", "... N"], table: In[Tensor, "int32", 2, 3], *, y: Out[Tensor, "int32", "... N"] = None
) -> Tensor: ...


@pytest.mark.parametrize(("shape", "extents"), [((2,), 1110), ((3, 2), 1130), ((4, 3, 2), 1430), ((2, 1, 3, 2), 2130)])
def test_leading_dims_literal_dims_and_padding(shape, extents):
    x = torch.arange(torch.Size(shape).numel(), dtype=torch.int32).view(shape)
    table = torch.arange(6, dtype=torch.int32).view(2, 3)
    assert torch.equal(leading(x, table), x + 5 + extents)


def test_tensor_with_other_literal_dims_is_rejected():
    with pytest.raises(ShapeError, match=r"leading: table is \(3, 2\) int32 on cpu; expected \(2, 3\) int32"):
        leading(torch.zeros(2, dtype=torch.int32), torch.zeros(3, 2, dtype=torch.int32))


def test_in_place_fields_are_returned_if_the_annotation_lists_them():
    source = "__global__ void f(Globals g) { g.x[0] += 1; g.y[0] = g.x[0] * 2; }"
    options = {"entry": "f", "grid": 1, "block": 1}
    fields = '(x: InOut[Tensor, "int32", 1], *, y: Out[Tensor, "int32", 1] = None)'
    x = torch.ones(1, dtype=torch.int32)
    outputs_only = define(source, fields + " -> Tensor", **options)
    assert outputs_only(x).item() == 4 and x.item() == 2
    both = define(source, fields + " -> tuple[Tensor, Tensor]", **options)(x)
    assert both._fields == ("x", "y") and both.x is x and both.y.item() == 6


# ---- expressions in launch shapes


def test_comparisons_in_grid_block_and_shared_memory():
    kernel = define(
        "__global__ void f(Globals g) { atomicAdd(g.y.raw_ptr, 1.f); }",
        '(x: In[Tensor, "float32", "N"], y: InOut[Tensor, "float32", 1]) -> Tensor',
        entry="f",
        grid="1 + (N > 3)",
        block="1 + (2 < N <= 5) + (N == 4) * (N != 5) + (N >= 9)",
        shared_memory="(N < 2) * 16",
    )
    for n, threads in ((1, 1), (3, 2), (4, 6), (5, 4), (9, 4)):
        assert kernel(torch.ones(n), floats(0)).item() == threads, n


# ---- outputs that share memory with inputs


def test_output_that_shares_memory_is_rejected():
    kernel = define(
        COPY,
        '(x: In[Tensor, "float32", "N"], *, y: Out[Tensor, "float32", "N"]) -> Tensor',
        entry="copy<float>",
        grid=1,
        block="N",
    )
    memory = torch.arange(8.0)
    for x, y in ((memory, memory), (memory[:4], memory[2:6]), (memory[2:6], memory[:4])):
        with pytest.raises(
            ArgumentError, match=r"feature_\d+: the output y shares memory with x; give it its own memory"
        ):
            kernel(x, out=y)
    assert kernel(memory[:4], out=memory[4:]).tolist() == [0, 1, 2, 3]
