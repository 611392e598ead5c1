"""Scratch memory, and outputs and scratch that are filled before the launch."""

import gc
import math

import numpy as np
import pytest
import torch

import tkjit
from tkjit import ArgumentError, Fill, In, Out, Scratch, ShapeError, SpecError, Strided, Tensor, Zero
from tkjit.testing import check

pytestmark = pytest.mark.compiles

COLUMNS = """
template <class T>
__global__ void columns(Globals g) {
    const int row = blockIdx.x, col = threadIdx.x;
    g.squares(row, col) = g.scale * float(g.x(row, col)) * float(g.x(row, col));
    atomicAdd(&g.sums[col], g.squares(row, col));
    atomicMax(&g.last[col], row);
    atomicAdd(&g.used[0], 1);
}
"""


@tkjit.kernel(COLUMNS, entry="columns<T>", grid="M", block="N", variants={"T": ["float32", "float16"]})
def columns(
    x: In[Tensor, "T", "M", "N"],
    squares: Scratch[Tensor, "float32", "M", "N"],
    used: Scratch[Tensor, "int32", 1, Zero],
    scale: float = 1.0,
    *,
    sums: Out[Tensor, "float32", "N", Zero],
    last: Out[Tensor, "int32", "N", Fill(-1)],
    least: Out[Strided, "T", "N", 2, Fill(-math.inf)],
) -> tuple[Tensor, Tensor, Tensor]:
    sums, last = scale * (x.float() ** 2).sum(0), torch.full(x.shape[1:], len(x) - 1, dtype=torch.int32)
    return sums, last, x.new_full((x.shape[1], 2), -math.inf)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_outputs_are_filled_as_the_spec_declares(dtype):
    x = torch.randn(5, 7).to(dtype)
    for _ in range(3):  # in memory that was used before
        found = columns(x)
        assert torch.allclose(found.sums, (x.float() ** 2).sum(0), atol=1e-2)
        assert found.last.tolist() == [4] * 7
        assert found.least.dtype == dtype and (found.least == -math.inf).all()


def test_outputs_passed_by_the_caller_are_filled():
    x, sums, wide = torch.randn(5, 7), torch.ones(7), torch.zeros(7, 4)
    columns(x, sums=sums, least=wide[:, ::2])
    assert torch.allclose(sums, (x**2).sum(0))
    assert (wide[:, ::2] == -math.inf).all() and (wide[:, 1::2] == 0).all()


def test_scratch_is_not_an_argument():
    x = torch.randn(5, 7)
    assert list(columns.signature.parameters)[:2] == ["x", "scale"]
    with pytest.raises(ArgumentError, match="columns: unknown argument squares"):
        columns(x, squares=torch.empty(5, 7))
    assert torch.allclose(columns(x, 2.0).sums, 2 * (x**2).sum(0))
    with torch.profiler.profile():  # through the operator
        assert torch.allclose(columns(x, 2.0).sums, 2 * (x**2).sum(0))


def test_scratch_lives_as_long_as_the_launch_needs_it():
    def tensors():
        gc.collect()
        return sum(type(one) is torch.Tensor for one in gc.get_objects())

    x = torch.randn(5, 7)
    before = tensors()
    for _ in range(3):
        columns(x)
    assert tensors() == before
    (shown,) = tkjit.make_globals(columns, x)
    assert shown["squares"].extents == (1, 1, 5, 7) and shown["used"].dtype == "int32"
    squares = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * 35).from_address(shown["squares"].data_ptr))
    squares[:] = 1  # the memory lives as long as `shown`


def test_operator_allocates_scratch():
    x = torch.randn(5, 7)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def twice(x):
        return columns(x).sums * 2

    assert torch.allclose(twice(x), 2 * (x**2).sum(0))
    with torch._subclasses.FakeTensorMode() as mode:
        assert columns(mode.from_tensor(x)).least.shape == (7, 2)


def test_empty_grid_still_fills_outputs():
    found = columns(torch.empty(0, 7))
    assert found.sums.tolist() == [0] * 7 and found.last.tolist() == [-1] * 7


@pytest.mark.slow
def test_checker_treats_filled_memory_as_initialised():
    assert check(columns, dims={"M": 3, "N": 32}).findings == []


SIZED = "__global__ void f(Globals g) { if (g.room.numel()) g.y[0] = g.room[0]; }"


@tkjit.kernel(SIZED, entry="f", grid=1, block=1)
def sized(
    x: In[Tensor, "float32", "N"],
    room: Scratch[Tensor, "float32", "size", Zero],
    size: int,
    *,
    y: Out[Tensor, "float32", 1],
) -> Tensor: ...


def test_scratch_with_a_negative_or_huge_size_is_rejected():
    x = torch.ones(1)
    assert sized(x, 4).item() == 0
    with pytest.raises(ShapeError, match="sized: an extent of the scratch room would be -3"):
        sized(x, -3)
    with pytest.raises(ArgumentError, match=r"size is 4294967296 \(int\); expected an int from"):
        sized(x, 1 << 32)


def spec_error(function, **options):
    with pytest.raises(SpecError) as raised:
        tkjit.kernel("", entry="f", grid=1, block=1, **options)(function)
    return str(raised.value)


def test_pdl_cannot_be_combined_with_zero():
    def zeroed(x: In[Tensor, "float32", "N"], *, y: Out[Tensor, "float32", "N", Zero]): ...

    assert "pdl=True lets the kernel start before Zero and Fill have finished" in spec_error(zeroed, pdl=True)


def filled_input(x: In[Tensor, "float32", "N", Zero]): ...
def unknown_dim(x: In[Tensor, "float32", "N"], t: Scratch[Tensor, "float32", "M"]): ...
def with_default(x: In[Tensor, "float32", "N"], t: Scratch[Tensor, "float32", "N"] = None): ...
def no_integer(x: In[Tensor, "float32", "N"], *, y: Out[Tensor, "int32", "N", Fill(0.5)]): ...
def too_large(x: In[Tensor, "float32", "N"], *, y: Out[Tensor, "int8", "N", Fill(200)]): ...
def infinite(x: In[Tensor, "float32", "N"], *, y: Out[Tensor, "int64", "N", Fill(math.inf)]): ...
def of_pairs(x: In[Tensor, "float32", "N"], *, y: Out[Tensor, "float4_e2m1fn_x2", "N", Fill(1)]): ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (filled_input, "x: Zero and Fill are for outputs and scratch"),
        (unknown_dim, "t's dims: undefined dim M"),
        (with_default, "t: scratch is allocated for each call, so it cannot be None or have a default"),
        (no_integer, "y: Fill(0.5) is not a value of int32"),
        (too_large, "y: Fill(200) is not a value of int8"),
        (infinite, "y: Fill(inf) is not a value of int64"),
        (of_pairs, "y: float4_e2m1fn_x2 can only be filled with Zero"),
    ],
)
def test_contradictory_specs_are_rejected(function, message):
    assert message in spec_error(function)


ROOM = """
__global__ void with_room(Globals g) {
    g.room[threadIdx.x] = g.x[0][threadIdx.x];
    __syncthreads();
    g.y[threadIdx.x] = g.room[blockDim.x - 1 - threadIdx.x];
}
"""


@tkjit.kernel(ROOM, entry="with_room", grid=1, block="N")
def with_room(
    x: In[tkjit.ParallelTensor, "float32", "N"],
    room: Scratch[Tensor, "float32", "N"],
    *,
    y: Out[Tensor, "float32", "N"],
) -> Tensor: ...


def test_each_device_gets_its_own_scratch():
    x = [torch.arange(4.0), torch.ones(4)]
    assert [y.tolist() for y in with_room(x)] == [[3, 2, 1, 0]] * 2


@tkjit.kernel("__global__ void f(Globals g) { g.y(0, 0).x += 1; }", entry="f", grid=1, block=1)
def of_complex(
    x: In[Tensor, "complex64", "N"],
    *,
    y: Out[Strided, "complex64", "N", "N", Zero],
    z: Out[Strided, "float8_e4m3fn", "N", Fill(2)],
): ...


def test_complex_and_float8_outputs_can_be_filled():
    wide = torch.full((2, 4), 3j, dtype=torch.complex64)
    found = of_complex(torch.ones(2, dtype=torch.complex64), y=wide[:, ::2])
    assert wide.tolist() == [[1, 3j, 0, 3j], [0, 3j, 0, 3j]]
    assert found.z.float().tolist() == [2, 2]
