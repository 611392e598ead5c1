"""matmul in the simulator: any strides, batches, and a scaled addend, for Hopper and for other GPUs."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit
from tkjit import ArgumentError

pytestmark = pytest.mark.compiles


@pytest.fixture(params=sample(("80", "90a"), "90a"))
def arch(request, session_cache, monkeypatch):
    monkeypatch.setenv("TKJIT_MODEL_ARCH", request.param)
    return request.param


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def assert_right(a, b, c=None, alpha=1.0, beta=1.0):
    exact = alpha * (a.double() @ b.double())
    summed = abs(alpha) * (a.double().abs() @ b.double().abs())
    if c is not None:
        exact, summed = exact + beta * c.double(), summed + abs(beta) * c.double().abs()
    d = tkjit.load("matmul")(a, b, c, alpha, beta)
    assert d.dtype == a.dtype and d.is_contiguous()
    bound = torch.finfo(a.dtype).eps * exact.abs() + (a.shape[-1] + 3) * torch.finfo(torch.float32).eps * summed
    assert bool(((d.double() - exact).abs() <= bound).all())


def views(rows: int, cols: int) -> dict[str, torch.Tensor]:
    """Return matrices of one shape, each with other strides."""
    return {
        "rows": random(rows, cols),
        "columns": random(cols, rows).T,
        "slice of rows": random(rows + 20, cols + 40)[8 : 8 + rows, 16 : 16 + cols],
        "slice of columns": random(cols + 16, rows + 32).T[8 : 8 + rows, 8 : 8 + cols],
        "odd slice": random(rows + 5, cols + 7)[3 : 3 + rows, 1 : 1 + cols],
        "every other column": random(rows, 2 * cols)[:, ::2],
        "one row": random(cols).expand(rows, cols),
        "one column": random(rows, 1).expand(rows, cols),
    }


@pytest.mark.slow
@pytest.mark.parametrize("of_b", views(1, 1))
@pytest.mark.parametrize("of_a", views(1, 1))
def test_any_strides(arch, of_a, of_b):
    assert_right(views(136, 72)[of_a], views(72, 56)[of_b], random(136, 56))


@pytest.mark.parametrize("arch", sample(["80", "90a"], "80"), indirect=True)
def test_strides_of_a_first_operand(arch):
    b = random(72, 56)
    for a in views(136, 72).values():
        assert_right(a, b)


@pytest.mark.slow
def test_strides_of_a_second_operand(arch):
    a = random(16, 72)
    for b in views(72, 264).values():
        assert_right(a, b)


def test_strides_of_an_addend(arch):
    a, b = random(70, 72), random(72, 56)
    for c in views(70, 56).values():
        assert_right(a, b, c, alpha=0.5, beta=-2.0)


@pytest.mark.parametrize("arch", ["80", "90a"], indirect=True)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (1, 8, 200), (130, 1, 64), (40, 264, 2100), (5, 7, 0)])
def test_any_shape(arch, m, n, k):
    assert_right(random(m, k), random(k, n), random(m, n))


def test_a_batch(arch):
    a, b = random(3, 70, 72), random(3, 72, 56)
    assert_right(a, b, random(56).expand(3, 70, 56))
    assert_right(a, b[:1].expand(3, 72, 56))
    assert_right(a, random(56, 3, 72).permute(1, 2, 0))
    assert_right(random(70, 3, 64).transpose(0, 1), random(64, 2, 3, 16)[:, 0].transpose(0, 1))
    assert_right(random(2, 40, 2100), random(2, 2100, 72))  # several blocks share a tile


@pytest.mark.parametrize(("dtype", "of_a"), [(torch.float32, "columns"), (torch.float16, "rows")])
def test_other_types(arch, dtype, of_a):
    assert_right(views(130, 72)[of_a].to(dtype), random(72, 40, dtype=dtype), random(130, 40, dtype=dtype))


@pytest.mark.parametrize("of_b", sample(["rows", "columns"], "columns"))
@pytest.mark.parametrize("of_a", sample(["rows", "columns", "odd slice"], "columns"))
def test_tf32_rounds_factors_and_sums_in_float32(arch, of_a, of_b):
    a, b = views(130, 72)[of_a].float(), views(72, 264)[of_b].float()
    a, b = a + a.sign() * 2.0**-11, b * (1 + 2.0**-12)  # to round
    c = random(130, 264, dtype=torch.float32)
    d = tkjit.load("matmul")(a, b, c, 0.5, 2.0, precision="tf32")
    of_tf32 = [((one.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32).double() for one in (a, b)]
    exact = 0.5 * of_tf32[0] @ of_tf32[1] + 2.0 * c.double()
    torch.testing.assert_close(d.double(), exact, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(d.double(), 0.5 * a.double() @ b.double() + 2.0 * c.double(), rtol=1e-5, atol=1e-5)


def test_tf32_of_nan_and_infinity(arch):
    a = torch.ones(3, 8)
    a.view(torch.int32)[0, 3], a[1, 2] = 0x7FFFFFFF, float("inf")
    c = tkjit.load("matmul")(a, torch.ones(8, 8), precision="tf32")
    assert bool(c[0].isnan().all()) and bool(c[1].isposinf().all()) and bool((c[2] == 8).all())


@pytest.mark.slow
def test_tf32_in_a_batch_with_few_rows(arch):
    a, b = random(2, 40, 2100, dtype=torch.float32), random(2, 72, 2100, dtype=torch.float32).mT
    d = tkjit.load("matmul")(a, b, precision="tf32")
    torch.testing.assert_close(d, a @ b, rtol=1e-3, atol=0.1)
    a, b = random(5, 7).float(), random(7, 3).float()  # bfloat16 fits into tf32
    torch.testing.assert_close(tkjit.load("matmul")(a, b, precision="tf32"), a @ b)


def test_an_addend_times_zero_is_not_read():
    a, b = random(8, 16), random(16, 8)
    matmul = tkjit.load("matmul")
    assert torch.equal(matmul(a, b, torch.full((8, 8), torch.nan).bfloat16(), beta=0.0), matmul(a, b))


def test_empty_matrices():
    matmul = tkjit.load("matmul")
    assert matmul(random(2, 3, 8)[:0], random(8, 4).expand(0, 8, 4)).shape == (0, 3, 4)
    assert matmul(random(0, 8), random(8, 4)).shape == (0, 4)
    assert matmul(random(0, 3, 8), random(0, 8, 4)).shape == (0, 3, 4)


@pytest.mark.parametrize("shape", [pytest.param((), marks=pytest.mark.slow), (3,)])
def test_gradients(shape):
    a, b, c = (random(*shape, *one, dtype=torch.float32) for one in ((5, 7), (7, 6), (5, 6)))
    inputs = [one.requires_grad_() for one in (a, b.mT.contiguous().mT, c)]
    weights = torch.randn(*shape, 5, 6)
    ours = torch.autograd.grad((tkjit.load("matmul")(*inputs, 0.5, 2.0) * weights).sum(), inputs)
    exact = torch.autograd.grad(((0.5 * inputs[0] @ inputs[1] + 2.0 * inputs[2]) * weights).sum(), inputs)
    for our, other in zip(ours, exact, strict=True):
        torch.testing.assert_close(our, other)


def test_wrong_arguments():
    matmul = tkjit.load("matmul")
    with pytest.raises(ArgumentError, match=r"b is \(5, 6\) bfloat16 on cpu; expected \(K=4, N\)"):
        matmul(random(3, 4), random(5, 6))
    with pytest.raises(ArgumentError, match=r"b has 2 dimensions, but 3 are expected"):
        matmul(random(2, 3, 4), random(4, 5))
    with pytest.raises(ArgumentError, match=r"pass b.to\(torch.bfloat16\)"):
        matmul(random(3, 4), random(4, 5, dtype=torch.float32))
