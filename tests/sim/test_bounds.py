"""An index outside of a global layout raises an error with the tensor's name."""

from __future__ import annotations

import pytest
import torch

import tkjit
from tkjit import In, InOut, LaunchError, Out, Strided, Tensor

pytestmark = pytest.mark.compiles
SOURCE = r"""
__global__ void edges(const __grid_constant__ Globals g) {
    const int i = threadIdx.x;
    if (i == 5) switch (g.what) {
        case 1: g.y[g.y.numel()] = 1; break;  // line 5
        case 2: g.y[-1] = 1; break;
        case 3: g.y[~0ull] = 1; break;
        case 4: g.x(g.x.rows(), 0) = 1; break;
        case 5: g.x(1, -1) = 2; break;
        case 6: g.z(0, 2, 0, 0) = 1; break;
        case 7: g.z(0, 1, 2, 4) = 1; break;
        case 8: g.y[0] = g.bias[0]; break;
        case 9: g.y[0] = g.xs[1][unsigned(7)]; break;
        case 10: *(g.y.raw_ptr + 70) = 1; break;  // raw pointers are not covered
        case 11: g.x(39, 2) = 1; break;
        case 12: g.x(2, 40) = 1; break;
    }
    // the last element of each, and row numbers that count over all matrices
    g.y[g.y.numel() - 1] = g.x(2, 39) + g.z(0, 1, 2, 3) + g.z(5, 3) + g.xs[1][short(6)];
    g.y[i] = g.x(0, i);
}
"""


def _spec(kernel: str, **options: object):
    @tkjit.kernel(SOURCE, entry="edges", grid=1, block=32, **options)
    def edges(
        x: InOut[Tensor, "float32", "M", "N"],
        xs: In[list[Tensor], "float32", "K"],
        z: InOut[Tensor, "float32", "1", "2", "3", "4"],
        y: Out[Tensor, "float32", 64],
        what: int,
        bias: In[Tensor, "float32", "N"] | None = None,
    ) -> Tensor: ...

    return edges


ORDER = "; or are the two swapped? The row comes first: (row, col)"
EXPECTED = {
    1: ("y[64] is out of bounds: y has 64 elements; compare the index with numel() first", 5),
    2: ("y[-1] is out of bounds: y has 64 elements; compare the index with numel() first", 6),
    3: ("y[18446744073709551615] is out of bounds: y has 64 elements; compare the index with numel() first", 7),
    4: ("x: row 3 is out of bounds: the extent is 3; compare it with rows() first" + ORDER, 8),
    5: ("x: col -1 is out of bounds: the extent is 40; compare it with cols() first", 9),
    6: ("z: depth 2 is out of bounds: the extent is 2; compare it with depth() first", 10),
    7: ("z: col 4 is out of bounds: the extent is 4; compare it with cols() first", 11),
    8: ("bias is indexed, but the call left it out; check if (g.bias) first", 12),
    9: ("xs[1][7] is out of bounds: xs[1] has 7 elements; compare the index with numel() first", 13),
    11: ("x: row 39 is out of bounds: the extent is 3; compare it with rows() first" + ORDER, 15),
    12: ("x: col 40 is out of bounds: the extent is 40; compare it with cols() first", 16),
}


def _arguments(what: int) -> tuple[object, ...]:
    return torch.zeros(3, 40), [torch.ones(7), torch.ones(7)], torch.ones(1, 2, 3, 4), what


def test_an_index_out_of_bounds_raises_with_name_index_extent_and_line():
    edges = _spec("edges")
    for what, (text, line) in EXPECTED.items():
        with pytest.raises(LaunchError) as error:
            edges(*_arguments(what))
        place = f", in block (0, 0, 0), thread (5, 0, 0) (inline.cu:{line})"
        assert str(error.value).startswith(f"edges: {text}{place}")
    y = torch.zeros(128)
    assert edges(*_arguments(0))[63] == 3
    assert edges(*_arguments(10), out=y[:64]).shape == (64,)


STRIDED = """
__global__ void past(Globals g) {
    const int i = threadIdx.x;
    g.y[i] = g.x(1, i + g.by);
}
"""


def test_an_index_outside_of_a_strided_layout_raises():
    @tkjit.kernel(STRIDED, entry="past", grid=1, block=3)
    def past(x: In[Strided, "float32", "M", "N"], by: int, *, y: Out[Tensor, "float32", 3]): ...

    x = torch.arange(12.0).reshape(2, 6)[:, ::2]
    assert past(x, 0).tolist() == [6, 8, 10]
    with pytest.raises(LaunchError, match=r"x: dim 1 3 is out of bounds: the extent is 3"):
        past(x, 1)
    with pytest.raises(LaunchError, match=r"x: dim 1 -1 is out of bounds: the extent is 3"):
        past(x, -1)


NORMS = """
__global__ void norms(Globals g) {
    const float* row = &g.x(blockIdx.x, 0);
    const float* all = &g.x[0];
    const float* strided = &g.s(blockIdx.x, 0);
    float sum = 0;
    for (int i = 0; i < g.x.cols(); ++i) sum += row[i] * row[i] + strided[i] - all[i];
    g.y[blockIdx.x] = sum;
}
"""


def test_a_row_without_columns_has_an_address():
    @tkjit.kernel(NORMS, entry="norms", grid="M", block=1)
    def norms(
        x: In[Tensor, "float32", "M", "N"], s: In[Strided, "float32", "M", "N"], y: Out[Tensor, "float32", "M"]
    ): ...

    x = torch.ones(3, 4)
    assert norms(x, x).tolist() == [4, 4, 4]
    x = torch.ones(3, 0)
    assert norms(x, x).tolist() == [0, 0, 0]


def test_indexing_an_omitted_layout_of_fixed_extents_raises():
    @tkjit.kernel("__global__ void f(Globals g) { g.y[0] = g.b(0, 1); }", entry="f", grid=1, block=1)
    def f(
        x: In[Tensor, "float32", "N"], b: In[Tensor, "float32", 2, 4] | None = None, *, y: Out[Tensor, "float32", "N"]
    ): ...

    with pytest.raises(LaunchError, match=r"b is indexed, but the call left it out; check if \(g.b\) first"):
        f(torch.ones(4))
