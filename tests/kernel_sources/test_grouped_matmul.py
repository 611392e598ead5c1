"""grouped_matmul and its gradient in the simulator: groups of any size, for Hopper and for other GPUs."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit
from tkjit import ArgumentError, ShapeError

pytestmark = pytest.mark.compiles


@pytest.fixture(params=sample(("80", "90a"), "90a"))
def arch(request, session_cache, monkeypatch):
    monkeypatch.setenv("TKJIT_MODEL_ARCH", request.param)
    return request.param


def product(a, b, ends):
    """Multiply in float64; rows after the last group are 0."""
    c, first = a.new_zeros(a.shape[0], b.shape[2]), 0
    for matrix, end in zip(b, ends, strict=True):
        c = c.index_put((torch.arange(first, end),), a[first:end] @ matrix)
        first = max(first, end)
    return c


ENDS = [
    pytest.param([40, 40, 41, 170, 300], id="an empty group, one row, more rows than a tile"),
    pytest.param([0, 0, 64, 128, 256], id="whole tiles, and rows after the last group"),
    pytest.param([300], id="one group"),
    pytest.param([7, 15, 20, 33, 47, 60, 64, 71, 80, 90], id="small groups"),
]


@pytest.mark.parametrize("arch", ["80", "90a"], indirect=True)
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("by_columns", sample([False, True], "True"))
def test_products(arch, ends, by_columns):
    rows = max(90, ends[-1])
    a, b = torch.randn(rows, 72).bfloat16(), torch.randn(len(ends), 72, 136).bfloat16()
    b = b.mT.contiguous().mT if by_columns else b
    c = tkjit.load("grouped_matmul")(a, b, torch.tensor(ends, dtype=torch.int32))
    exact = product(a.double(), b.double(), ends)
    assert bool(((c.double() - exact).abs() <= 2.0**-8 * exact.abs() + 1e-4).all())
    assert not c[ends[-1] :].any()


@pytest.mark.parametrize("shape", [(53, 37, 71), (5, 0, 8), (0, 8, 8)], ids=str)
def test_rows_that_tma_cannot_copy(arch, shape):
    m, k, n = shape
    a, b = torch.randn(m, k).half(), torch.randn(2, k, n).half()
    c = tkjit.load("grouped_matmul")(a, b, torch.tensor([m // 3, m], dtype=torch.int32))
    exact = product(a.double(), b.double(), [m // 3, m])
    assert bool(((c.double() - exact).abs() <= 2.0**-11 * exact.abs() + 1e-5).all())


def test_gradients():
    ends = [5, 5, 140]
    a, b = torch.randn(150, 12).requires_grad_(), torch.randn(3, 12, 9).requires_grad_()
    weights = torch.randn(150, 9)
    (tkjit.load("grouped_matmul")(a, b, torch.tensor(ends, dtype=torch.int32)) * weights).sum().backward()
    wide_a, wide_b = (one.detach().double().requires_grad_() for one in (a, b))
    (product(wide_a, wide_b, ends) * weights).sum().backward()
    torch.testing.assert_close(a.grad.double(), wide_a.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(b.grad.double(), wide_b.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ends", [[-5, 20, 10], [10, 1000, 20]])
def test_ends_that_decrease_or_exceed_the_rows_stay_in_bounds(arch, ends):
    a, b = torch.randn(50, 16).bfloat16(), torch.randn(3, 16, 8).bfloat16()
    c = tkjit.load("grouped_matmul")(a, b, torch.tensor(ends, dtype=torch.int32))
    limits = torch.tensor(ends).clamp(0, 50).cummax(0).values.tolist()
    torch.testing.assert_close(c.double(), product(a.double(), b.double(), limits), rtol=0.02, atol=0.02)


def test_wrong_arguments():
    grouped_matmul = tkjit.load("grouped_matmul")
    a, b = torch.randn(8, 4), torch.randn(2, 4, 3)
    with pytest.raises(ShapeError, match=r"ends is \(3,\) int32 on cpu; expected \(E=2,\)"):
        grouped_matmul(a, b, torch.zeros(3, dtype=torch.int32))
    with pytest.raises(ArgumentError, match="ends"):
        grouped_matmul(a, b, torch.zeros(2, dtype=torch.int64))
