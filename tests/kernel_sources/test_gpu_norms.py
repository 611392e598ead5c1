"""rms_norm, add_rms_norm and layer_norm on a GPU, with each variant of ``tkjit::Row`` and rows at odd addresses."""

from __future__ import annotations

import pytest
import torch

import tkjit

pytestmark = pytest.mark.gpu
F = torch.nn.functional
LENGTHS = (1, 100, 256, 1000, 1024, 3001, 4096, 9000, 16384, 20001, 70000, 262144)
ROUNDING = {torch.float32: 2e-6, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def assert_near(got: torch.Tensor, exact: torch.Tensor) -> None:
    assert got.shape == exact.shape
    bound = 1.01 * ROUNDING[got.dtype] * exact.abs() + 2e-5
    assert bool(((got.double() - exact).abs() <= bound).all())


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("n", LENGTHS)
def test_results(gpu, n, dtype):
    x, residual = (torch.randn(37, n, device=gpu).to(dtype) for _ in range(2))
    weight, bias = (torch.randn(n, device=gpu).to(dtype) for _ in range(2))
    assert_near(tkjit.load("rms_norm")(x, weight), F.rms_norm(x.double(), (n,), weight.double(), 1e-6))
    y, total = tkjit.load("add_rms_norm")(x, residual, weight)
    assert torch.equal(total, x + residual)
    assert_near(y, F.rms_norm(total.double(), (n,), weight.double(), 1e-6))
    if n > 1:
        exact = F.layer_norm(x.double(), (n,), weight.double(), bias.double())
        assert_near(tkjit.load("layer_norm")(x, weight, bias), exact)


@pytest.mark.parametrize("n", [999, 1000, 8192])
def test_rows_at_any_address(gpu, n):
    x = torch.randn(8 * n + 1, device=gpu).bfloat16()[1:].view(8, n)
    assert_near(tkjit.load("rms_norm")(x), F.rms_norm(x.double(), (n,), None, 1e-6))
