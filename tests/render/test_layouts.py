"""Tensors as global layouts of tkjit and of other libraries, with extents that a type fixes."""

from pathlib import Path

import pytest
import torch
from support.define import define

import tkjit
from tkjit import In, Out, ShapeError, Tensor

pytestmark = pytest.mark.compiles
KERNELS = Path(__file__).parents[1] / "support" / "kernels"
FOREIGN = """
#include <cstddef>
namespace foreign {
template <class T, int B, int D, int R, int C>
struct gl {
    using dtype = T;
    static constexpr int __b__ = B, __d__ = D, __r__ = R, __c__ = C;
    T* raw_ptr;
    int extents[4];

    gl(T* data, typename std::conditional<(B < 0), int, std::nullptr_t>::type b,
       typename std::conditional<(D < 0), int, std::nullptr_t>::type d,
       typename std::conditional<(R < 0), int, std::nullptr_t>::type r,
       typename std::conditional<(C < 0), int, std::nullptr_t>::type c)
        : raw_ptr(data), extents{value<B>(b), value<D>(d), value<R>(r), value<C>(c)} {}

    template <int Static> static int value(int given) { return given; }
    template <int Static> static int value(std::nullptr_t) { return Static; }
};

struct globals {
    gl<float, 1, 1, -1, 4> x;
    gl<float, -1, -1, -1, -1> y;
};

__global__ void sum(const __grid_constant__ globals g) {
    const int row = blockIdx.x;
    g.y.raw_ptr[row] = 1000 * g.x.extents[2] + 100 * g.y.extents[3];
    for (int i = 0; i < 4; ++i) g.y.raw_ptr[row] += g.x.raw_ptr[row * 4 + i];
}
}
"""


@tkjit.kernel(FOREIGN, struct="foreign::globals", entry="foreign::sum", grid="x.rows", block=1)
def foreign_sum(x: In[Tensor, "float32", "... N"], *, y: Out[Tensor, "float32", "x.rows"] = None) -> Tensor: ...


def test_a_type_that_quacks_like_a_global_layout():
    x = torch.arange(8, dtype=torch.float32).view(2, 4)
    assert foreign_sum(x).tolist() == [2206, 2222]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 5), "foreign_sum: x has cols=5; its type fixes 4"),
        ((3, 1, 2, 4), "foreign_sum: x has batch=3; its type fixes 1"),
        ((3, 2, 4), "foreign_sum: x has depth=3; its type fixes 1"),
    ],
)
def test_extents_that_contradict_the_type_raise(shape, message):
    y = torch.full((2,), 7.0)
    with pytest.raises(ShapeError) as raised:
        foreign_sum(torch.zeros(shape), out=y)
    assert str(raised.value) == message
    assert y.tolist() == [7, 7]


def test_a_foreign_layout_as_a_field_of_a_rendered_struct():
    kernel = define(
        "__global__ void f(Globals g) { g.x.raw_ptr[0] += g.x.height * 10 + g.x.width; }",
        '(x: InOut[Tensor, "float32", "M", "N", CType("foreign::rows<float, 4>")]) -> Tensor',
        entry="f",
        grid=1,
        block=1,
        include_dirs=[KERNELS / "include"],
        flags=["-include", "foreign.h"],  # the layout must be declared before the rendered struct
    )
    assert kernel(torch.ones(3, 4))[0, 0].item() == 35
    with pytest.raises(ShapeError, match=r"feature_\d+: x has cols=5; its type fixes 4"):
        kernel(torch.ones(3, 5))


def test_compile_time_extents_of_our_own_layout():
    kernel = define(
        "__global__ void f(Globals g) { g.x[0] = g.x.rows() * 10 + g.x.cols(); }",
        '(x: InOut[Tensor, "float32", "... N", CType("tkjit::gl<float, 1, 1, -1, 4>")]) -> Tensor',
        entry="f",
        grid=1,
        block=1,
    )
    assert kernel(torch.ones(3, 4))[0, 0].item() == 34
    x = torch.ones(2, 3, 4)
    with pytest.raises(ShapeError, match=r"feature_\d+: x has depth=2; its type fixes 1"):
        kernel(x)
    assert (x == 1).all()


def test_compile_time_extents_of_a_layout_argument():
    kernel = define(
        "#include <tkjit/gl.h>\n"
        "__global__ void f(tkjit::gl<float, 1, 1, -1, 4> x, float* y, int n) { y[0] = x.cols() + 10 * x.rows() + n; }",
        '(x: In[Tensor, "float32", "M", "N"], y: InOut[Tensor, "float32", 1], n: int = 100) -> Tensor',
        entry="f",
        args=True,
        grid=1,
        block=1,
    )
    assert kernel(torch.ones(3, 4), torch.zeros(1)).item() == 134
    with pytest.raises(ShapeError, match=r"feature_\d+: x has cols=5; its type fixes 4"):
        kernel(torch.ones(3, 5), torch.zeros(1))
