"""Calls with strided layouts: transposed, sliced and interleaved views, strides in expressions, and errors."""

import numpy as np
import pytest
import torch

import tkjit
from tkjit import ArgumentError, In, InOut, Out, ShapeError, Strided, Tensor

pytestmark = pytest.mark.compiles

HEADS = """
template <class T>
__global__ void scale(Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= int(g.x.numel())) return;
    const int d = i % g.x.extent(3), row = i / g.x.extent(3);
    const int n = row % g.x.extent(2), matrix = row / g.x.extent(2);
    const int h = matrix % g.x.extent(1), b = matrix / g.x.extent(1);
    g.y(b, h, n, d) = g.x(b, h, n, d) * T(2);
}
"""


@tkjit.kernel(
    HEADS, entry="scale<T>", grid="cdiv(B * H * N * D, 128)", block=128, variants={"T": ["float32", "float64"]}
)
def double_heads(x: In[Strided, "T", "B", "H", "N", "D"], *, y: Out[Strided, "T", "B", "H", "N", "D"]) -> Tensor: ...


def heads(*, of: int = 0) -> torch.Tensor:
    """Return q, k or v of a packed tensor, as a view of shape (batch, head, position, channel)."""
    packed = torch.arange(2 * 7 * 3 * 4 * 8, dtype=torch.float32).reshape(2, 7, 3, 4, 8)
    return packed.permute(2, 0, 3, 1, 4)[of]


@pytest.mark.parametrize(
    "x",
    [
        pytest.param(heads(), id="packed"),
        pytest.param(torch.randn(2, 5, 3, 8).transpose(1, 2), id="transposed"),
        pytest.param(torch.randn(2, 3, 5, 9)[..., 1::2], id="sliced"),
        pytest.param(torch.randn(3, 1, 8).expand(2, 3, 5, 8), id="expanded"),
        pytest.param(torch.randn(1, 1, 1, 1), id="ones"),
        pytest.param(torch.empty(2, 0, 5, 8), id="empty"),
        pytest.param(torch.randn(2, 3, 5, 8), id="contiguous"),
    ],
)
def test_any_strides_are_accepted(x):
    y = double_heads(x)
    assert y.is_contiguous() and torch.equal(y, 2 * x)
    for shown in tkjit.make_globals(double_heads, x):  # an empty tensor has no launch
        assert shown["x"].extents == x.shape and shown["x"].strides == x.stride()


def test_output_argument_may_have_any_strides():
    x = torch.randn(2, 4, 7, 8, dtype=torch.float64)
    room = torch.full((2, 7, 4, 11), -1.0, dtype=torch.float64)
    y = room[..., 1:9].transpose(1, 2)
    assert double_heads(x, out=y) is y
    assert torch.equal(y, 2 * x)
    assert (room[..., 0] == -1).all() and (room[..., 9:] == -1).all()


def test_interleaved_tensors_do_not_share_memory():
    q, k = heads(), heads(of=1)
    before = q.clone()
    k.set_(q.untyped_storage(), k.storage_offset(), k.shape, k.stride())
    double_heads(q, out=k)
    assert torch.equal(q, before) and torch.equal(k, 2 * q)
    with pytest.raises(ArgumentError, match="double_heads: the output y shares memory with x"):
        double_heads(q, out=q)
    with pytest.raises(ArgumentError, match="the output y shares memory with x"):
        double_heads(q, out=q.as_strided(q.shape, q.stride(), q.storage_offset() + 1))


def test_written_tensor_must_not_overlap_itself():
    with pytest.raises(ArgumentError) as raised:
        double_heads(torch.ones(2, 4, 7, 8), out=torch.zeros(2, 1, 7, 8).expand(2, 4, 7, 8))
    assert str(raised.value) == (
        "double_heads: the kernel writes to y, whose strides put several elements at one address (an expanded view?); "
        "pass a copy of y"
    )
    overlapping = torch.zeros(1000).as_strided((2, 4, 7, 8), (5, 60, 8, 1))
    with pytest.raises(ArgumentError, match="several elements at one address"):
        double_heads(torch.ones(2, 4, 7, 8), out=overlapping)


def test_invalid_strided_tensors_are_rejected():
    with pytest.raises(ShapeError, match=r"x is \(3, 4\) float32 on cpu; expected \(B, H, N, D\) float32 or float64"):
        double_heads(torch.ones(3, 4))
    with pytest.raises(ShapeError, match="of 9 dimensions; expected at most 8"):
        double_heads(torch.ones((1,) * 9))
    freed = torch.ones(2, 3, 4, 5).transpose(1, 2)
    freed.untyped_storage().resize_(40)
    with pytest.raises(ArgumentError, match="its storage holds less"):
        double_heads(freed)


def test_numpy_arrays_with_strides():
    x = np.arange(2 * 3 * 5 * 8, dtype=np.float32).reshape(2, 5, 3, 8).transpose(0, 2, 1, 3)
    y = double_heads(x)
    assert isinstance(y, np.ndarray) and np.array_equal(y, 2 * x)
    with pytest.raises(ArgumentError, match="with a stride below zero; pass a copy"):
        double_heads(x[:, ::-1])


EIGHT = "__global__ void first(Globals g) { g.y[0] = g.x(1, 0, 1, 0, 1, 0, 1, 0); }"


@tkjit.kernel(EIGHT, entry="first", grid=1, block=1)
def of_eight(x: In[Strided, "float32", 2, 2, 2, 2, 2, 2, 2, 2], *, y: Out[Tensor, "float32", 1]): ...


def test_eight_dims():
    x = torch.randn((2,) * 8).permute(7, 6, 5, 4, 3, 2, 1, 0)
    assert of_eight(x).item() == x[1, 0, 1, 0, 1, 0, 1, 0].item()


ROWS = """
__global__ void row_sums(const float* x, float* y, int rows, int cols, int64_t stride) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int col = 0; col < cols; ++col) sum += x[row * stride + col];
    y[row] = sum;
}
"""


@tkjit.kernel(
    ROWS,
    entry="row_sums",
    args=True,
    fields="x y rows cols stride",
    computed={"rows": "M", "cols": "N", "stride": "x.stride(0)"},
    constraints=["x.stride(-1) == 1"],
    grid="cdiv(M, 64)",
    block=64,
)
def row_sums(x: In[Strided, "float32", "M", "N"], *, y: Out[Tensor, "float32", "M"]) -> Tensor: ...


def test_strides_as_integer_arguments():
    x = torch.randn(10, 20)[:, 3:9]
    assert torch.allclose(row_sums(x), x.sum(1), atol=1e-5)
    with pytest.raises(ShapeError) as raised:
        row_sums(x.T)
    assert str(raised.value) == "row_sums: the constraint x.stride(-1) == 1 does not hold (x.stride(-1)=20)"


def test_a_traced_call_has_the_strides_of_its_views():
    x = torch.randn(10, 20)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def sums(x):
        return row_sums(x[:, 3:9]) + 1

    assert torch.allclose(sums(x), x[:, 3:9].sum(1) + 1, atol=1e-5)
    with torch._subclasses.FakeTensorMode() as mode:
        assert row_sums(mode.from_tensor(x)[:, 3:9]).shape == (10,)
        with pytest.raises(ShapeError, match=r"x.stride\(-1\) == 1 does not hold"):
            row_sums(mode.from_tensor(x).T)


INCREMENT = "__global__ void increment(Globals g) { g.x(threadIdx.x, blockIdx.x) += g.by(threadIdx.x, blockIdx.x); }"


@tkjit.kernel(INCREMENT, entry="increment", grid="N", block="M")
def increment(x: InOut[Strided, "float32", "M", "N"], by: In[Strided, "float32", "M", "N"]) -> Tensor: ...


def test_tensor_written_in_place_must_not_share_part_of_an_argument():
    square = torch.arange(9.0).reshape(3, 3)
    increment(square, square)
    assert square.tolist() == [[0, 2, 4], [6, 8, 10], [12, 14, 16]]
    for part in (square.T, square.as_strided((3, 3), (3, 0))):
        with pytest.raises(ArgumentError, match="shares some but not all of its memory with by"):
            increment(square, part)
    wide = torch.zeros(3, 6)
    increment(wide[:, ::2], torch.ones(3, 3))
    increment(wide[:, ::2], wide[:, 1::2])  # interleaved, but without shared elements
    assert wide.sum() == 9


def test_an_operator_that_writes_to_a_view():
    wide = torch.zeros(3, 6)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(wide):
        increment(wide[:, ::2], torch.ones(3, 3))
        return wide.sum()

    assert step(wide) == 9 and wide[:, 1].sum() == 0


ABSENT = """
__global__ void copy(Globals g) { g.y[threadIdx.x] = g.x ? g.x(threadIdx.x) : -1.f; }
"""


@tkjit.kernel(ABSENT, entry="copy", grid=1, block="N")
def or_minus_one(
    like: In[Tensor, "float32", "N"], x: In[Strided, "float32", "N"] | None = None, *, y: Out[Tensor, "float32", "N"]
) -> Tensor: ...


def test_an_optional_strided_layout():
    like = torch.zeros(3)
    assert or_minus_one(like).tolist() == [-1, -1, -1]
    assert or_minus_one(like, torch.arange(6.0)[::2]).tolist() == [0, 2, 4]


@tkjit.kernel("__global__ void f(Globals g) { g.x(0, 0) = g.y[0]; }", entry="f", grid=1, block=1)
def from_contiguous(x: InOut[Strided, "float32", "M", "N"], y: In[Tensor, "float32", "M", "N"]): ...


def test_transposed_view_counts_as_partly_shared_memory():
    square = torch.ones(3, 3)
    from_contiguous(square, square)
    with pytest.raises(ArgumentError, match="shares some but not all of its memory with y"):
        from_contiguous(square.T, square)


@tkjit.kernel("__global__ void f(Globals g) { g.y[0] = g.x(0, 0, 0, 0, 0, 0); }", entry="f", grid=1, block=1)
def of_six(
    x: In[Strided, "float32", "A", "B", "C", "D", "E", "F"], *, y: Out[Tensor, "float32", "x.rows", "x.cols"]
): ...


def test_padded_extents_are_those_of_the_last_dims():
    x = torch.ones(2, 3, 4, 5, 6, 7)
    assert of_six(x).shape == (6, 7)
    with torch._subclasses.FakeTensorMode() as mode:
        assert of_six(mode.from_tensor(x)).shape == (6, 7)


def test_large_interleaved_tensors_are_compared_quickly():
    packed = torch.zeros(10_000_000)
    a, b = packed.reshape(2_500_000, 2, 2).unbind(1)
    increment_all(a, b)
    with pytest.raises(ArgumentError, match="shares some but not all of its memory"):
        increment_all(a, packed[1:-3].reshape(2_499_999, 4)[:, :2])


@tkjit.kernel("__global__ void f(Globals g) { g.x(0, 0) += g.by(0, 0); }", entry="f", grid=1, block=1)
def increment_all(x: InOut[Strided, "float32", "M", "N"], by: In[Strided, "float32", "K", "N"]) -> Tensor: ...
