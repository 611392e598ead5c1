"""The bundled kernels on the CPU, against references in float64."""

import math
import shutil
from pathlib import Path

import pytest
import torch

import tkjit
from tkjit.registry import bundled_directory

pytestmark = pytest.mark.compiles
DTYPES = ["float32", "bfloat16", "float16"]
FLOAT32_EPS = torch.finfo(torch.float32).eps


@pytest.fixture(params=DTYPES)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return getattr(torch, request.param)


def random(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def assert_within(got: torch.Tensor, exact: torch.Tensor, summed: torch.Tensor, terms: int) -> None:
    """Compare with a float64 result, allowing one rounding to the dtype and a float32 rounding for each summed term.

    ``summed`` is the sum of the terms' absolute values.
    """
    assert got.shape == exact.shape
    limits = torch.finfo(got.dtype)
    bound = limits.eps * exact.abs() + (terms + 2) * FLOAT32_EPS * summed + limits.smallest_normal * limits.eps
    error = (got.double() - exact).abs()
    assert bool((error <= bound).all()), f"largest excess {(error - bound).max().item():.3e}"


# ---- axpy


@pytest.mark.parametrize("n", [1, 2, 31, 255, 256, 257, 1009])
def test_axpy(dtype, n):
    x, y = random(n, dtype=dtype), random(n, dtype=dtype, seed=1)
    before, x_before = y.double(), x.clone()
    result = tkjit.load("axpy")(x, y, 0.3)
    assert result is y
    assert torch.equal(x, x_before)
    alpha = torch.tensor(0.3, dtype=torch.float32).double()  # the struct's alpha is a float
    scaled = alpha * x.double()
    assert_within(y, scaled + before, scaled.abs() + before.abs(), 1)


def test_axpy_default_and_keywords(dtype):
    x, y = torch.full((5,), 2.0, dtype=dtype), torch.full((5,), 3.0, dtype=dtype)
    axpy = tkjit.load("axpy")
    assert axpy(x, y).tolist() == [5.0] * 5
    assert axpy(y=y, alpha=0.5, x=x).tolist() == [6.0] * 5
    assert axpy(x, alpha=-3, y=y).tolist() == [0.0] * 5


def test_axpy_of_empty_tensors_launches_nothing(dtype):
    x, y = torch.empty(0, dtype=dtype), torch.empty(0, dtype=dtype)
    assert tkjit.load("axpy")(x, y) is y


def test_axpy_agrees_with_its_reference():
    axpy = tkjit.load("axpy")
    x, y = random(40, dtype=torch.float32), random(40, dtype=torch.float32, seed=1)
    expected = axpy.reference(x, y.clone(), alpha=2.0)
    torch.testing.assert_close(axpy(x, y, alpha=2.0), expected)


# ---- softmax


@pytest.mark.parametrize(
    "shape", [(1,), (7,), (257,), (3, 1), (5, 31), (2, 256), (2, 1009), (2, 3, 33), (2, 1, 3, 17)], ids=str
)
def test_softmax(dtype, shape):
    x = 4 * random(*shape, dtype=dtype)
    before = x.clone()
    y = tkjit.load("softmax")(x)
    assert y.dtype == dtype and y.is_contiguous()
    assert torch.equal(x, before)
    exact = x.double().softmax(-1)
    # the error of the exponential grows with its argument
    spread = (x.double().amax(-1) - x.double().amin(-1)).max().item()
    assert_within(y, exact, exact, shape[-1] + 4 * math.ceil(spread + 1))


def test_softmax_of_extreme_rows():
    softmax = tkjit.load("softmax")
    infinity = float("inf")
    rows = torch.tensor([[1e38, -1e38, 0.0], [-infinity, 0.0, -infinity], [88.0, 88.0, -88.0]])
    expected = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]
    torch.testing.assert_close(softmax(rows), torch.tensor(expected))
    assert softmax(torch.tensor([infinity, 0.0])).isnan().any()


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0), (2, 0, 4), (2, 3, 0, 5)], ids=str)
def test_softmax_of_empty_tensors(shape):
    y = tkjit.load("softmax")(torch.empty(shape))
    assert y.shape == shape


def test_softmax_writes_to_out():
    softmax = tkjit.load("softmax")
    x = random(3, 20, dtype=torch.float32)
    out = torch.full((3, 20), float("nan"))
    assert softmax(x, out=out) is out
    assert torch.equal(out, softmax(x))
    by_name = torch.full((3, 20), float("nan"))
    assert softmax(x, y=by_name) is by_name
    assert torch.equal(by_name, out)


# ---- gemm


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        (1, 1, 1),
        (1, 7, 1),
        (3, 5, 2),
        (16, 16, 8),
        (17, 31, 13),
        (127, 33, 129),
        (128, 32, 128),
        (129, 1, 7),
        (5, 65, 131),
        (131, 97, 3),
        (2, 1009, 2),
        (9, 2100, 270),  # two blocks share a tile, and each adds up a part of K
        (70, 3100, 7),
    ],
)
def test_gemm(dtype, m, k, n):
    a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype, seed=1)
    c = tkjit.load("gemm")(a, b)
    assert c.dtype == dtype and c.is_contiguous()
    assert_within(c, a.double() @ b.double(), a.double().abs() @ b.double().abs(), k)


def test_gemm_reads_nothing_outside_its_inputs(dtype):
    """The inputs are views of a larger buffer, not aligned for vectors, and surrounded by NaN."""
    m, k, n = 9, 37, 11
    buffer = torch.full((2 * (m * k + k * n) + 50,), float("nan"), dtype=dtype)
    a = buffer[1 : 1 + m * k].view(m, k).copy_(random(m, k, dtype=dtype))
    first_b = m * k + 20 + 1
    b = buffer[first_b : first_b + k * n].view(k, n).copy_(random(k, n, dtype=dtype, seed=1))
    c = tkjit.load("gemm")(a, b)
    assert_within(c, a.double() @ b.double(), a.double().abs() @ b.double().abs(), k)


def test_gemm_writes_nothing_outside_its_output(dtype):
    m, k, n = 33, 16, 5
    a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype, seed=1)
    buffer = torch.full((m * n + 20,), 7.0, dtype=dtype)
    out = buffer[3 : 3 + m * n].view(m, n)
    tkjit.load("gemm")(a, b, out=out)
    assert torch.equal(out, tkjit.load("gemm")(a, b))
    assert (buffer[:3] == 7).all() and (buffer[3 + m * n :] == 7).all()


def test_gemm_with_an_empty_inner_dimension_is_zero(dtype):
    out = torch.full((3, 4), float("nan"), dtype=dtype)
    a, b = torch.empty(3, 0, dtype=dtype), torch.empty(0, 4, dtype=dtype)
    assert tkjit.load("gemm")(a, b, out=out) is out
    assert torch.equal(out, torch.zeros(3, 4, dtype=dtype))
    assert torch.equal(tkjit.load("gemm")(a, b), torch.zeros(3, 4, dtype=dtype))


@pytest.mark.parametrize(("m", "k", "n"), [(0, 3, 4), (3, 4, 0), (0, 0, 0), (0, 5, 0)])
def test_gemm_of_empty_matrices(m, k, n):
    assert tkjit.load("gemm")(torch.empty(m, k), torch.empty(k, n)).shape == (m, n)


def test_gemm_by_keyword_and_out(dtype):
    a, b = random(20, 30, dtype=dtype), random(30, 10, dtype=dtype, seed=1)
    gemm = tkjit.load("gemm")
    expected = gemm(a, b)
    assert torch.equal(gemm(b=b, a=a), expected)
    out = torch.full((20, 10), float("nan"), dtype=dtype)
    assert gemm(a, b, c=out) is out
    assert torch.equal(out, expected)
    assert torch.equal(gemm(a, b, out=None), expected)


# ---- all of them


def test_two_calls_give_the_same_bits(dtype):
    a, b = random(150, 70, dtype=dtype), random(70, 140, dtype=dtype, seed=1)
    gemm, softmax, axpy = map(tkjit.load, ("gemm", "softmax", "axpy"))
    assert torch.equal(gemm(a, b), gemm(a, b))
    assert torch.equal(softmax(a), softmax(a))
    assert torch.equal(axpy(a[0].clone(), a[1].clone(), 0.7), axpy(a[0].clone(), a[1].clone(), 0.7))


EDITS = {
    "axpy": ("float(g.x[i]) + float(g.y[i])", "float(g.x[i]) - float(g.y[i])"),
    "softmax": ("T(normalizer.share_of(", "T(2 * normalizer.share_of("),
    "gemm": ("return sum;", "return 2 * sum;"),
}


@pytest.mark.parametrize("name", EDITS)
def test_edited_source_changes_the_result(name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The CPU runs the same ``.cu``: no bundled kernel has a separate source for it."""
    assert all(arch != "cpu" for spec in tkjit.find(name).specs for arch, _ in spec.sources)
    shutil.copytree(bundled_directory(), tmp_path, dirs_exist_ok=True)
    source = (bundled_directory() / f"{name}.cu").read_text()
    before, after = EDITS[name]
    assert source.count(before) == 1
    (tmp_path / f"{name}.cu").write_text(source.replace(before, after))
    x, y = random(4, 4, dtype=torch.float32), random(4, 4, dtype=torch.float32, seed=1)
    x, y = x.abs() + 0.1, y.abs() + 0.1
    arguments = {"axpy": lambda: (x.view(-1), y.view(-1).clone()), "softmax": lambda: (x,), "gemm": lambda: (x, y)}[
        name
    ]
    bundled = tkjit.load(name)(*arguments())
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    edited = tkjit.load(name)
    assert edited.specs[0].sources[0][1].path == tmp_path / f"{name}.cu"
    expected = {
        "axpy": lambda: x.view(-1) - y.view(-1),
        "softmax": lambda: 2 * bundled,
        "gemm": lambda: 2 * x @ y,
    }[name]()
    torch.testing.assert_close(edited(*arguments()), expected)
    assert not torch.allclose(edited(*arguments()), bundled)
