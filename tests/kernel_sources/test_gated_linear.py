"""gated_linear on the CPU, with Hopper's source and the portable one: shapes, activations, gradients and bad input."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit

pytestmark = pytest.mark.compiles
F = torch.nn.functional
SHAPES = [
    ((16,), 64, 40),  # one tile of 64 rows
    ((16,), 64, 200),  # each warpgroup has columns of both weights
    ((2, 3, 50), 256, 264),  # leading dims are rows
    ((53,), 37, 71),  # rows that TMA cannot copy
    ((9,), 2100, 72),  # two blocks share a tile
    ((70,), 3100, 40),
    ((3,), 0, 4),
]


@pytest.fixture(params=sample(("80", "90a"), "90a"))
def arch(request, session_cache, monkeypatch):
    monkeypatch.setenv("TKJIT_MODEL_ARCH", request.param)


def arguments(leading, k, n, dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(k + n)
    tensors = [torch.randn(shape, generator=generator) for shape in ((*leading, k), (n, k), (n, k), (n,), (n,))]
    tensors[1:3] = (one / max(k, 1) ** 0.5 for one in tensors[1:3])
    return [tensor.to(dtype) for tensor in tensors]


def gated(x, gate, up, gate_bias=None, up_bias=None, f=F.silu):
    return f(F.linear(x, gate, gate_bias)) * F.linear(x, up, up_bias)


@pytest.mark.parametrize("arch", ["80", "90a"], indirect=True)
@pytest.mark.parametrize("dtype", sample(("bfloat16", "float16", "float32"), "bfloat16"))
def test_shapes(arch, dtype):
    dtype = getattr(torch, dtype)
    rounding = {torch.float32: 4e-6, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}[dtype]
    for leading, k, n in SHAPES:
        tensors = arguments(leading, k, n, dtype)
        exact = gated(*(tensor.double() for tensor in tensors))
        y = tkjit.load("gated_linear")(*tensors)
        assert y.shape == (*leading, n) and y.dtype == dtype
        assert bool(((y.double() - exact).abs() <= rounding * exact.abs() + 2e-5).all()), (leading, k, n)


def test_weights_may_be_halves_of_one_tensor_and_either_bias_may_be_omitted():
    x, weight, bias = torch.randn(5, 16), torch.randn(60, 16), torch.randn(30)
    gated_linear = tkjit.load("gated_linear")
    torch.testing.assert_close(gated_linear(x, *weight.chunk(2)), gated(x, *weight.chunk(2)))
    torch.testing.assert_close(gated_linear(x, *weight.chunk(2), bias), gated(x, *weight.chunk(2), bias))
    torch.testing.assert_close(
        gated_linear(x, *weight.chunk(2), up_bias=bias, activation="relu"),
        gated(x, *weight.chunk(2), None, bias, F.relu),
    )


def test_gradients():
    tensors = arguments((2, 5), 16, 30, torch.float32)
    ours = [tensor.clone().requires_grad_() for tensor in tensors]
    theirs = [tensor.clone().requires_grad_() for tensor in tensors]
    grad = torch.randn(2, 5, 30)
    tkjit.load("gated_linear")(*ours, activation="gelu").backward(grad)
    gated(*theirs, f=F.gelu).backward(grad)
    for mine, exact in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, exact.grad)


def test_weights_of_different_shapes_are_rejected():
    x, gate, up, *_ = arguments((3,), 8, 4, torch.float32)
    with pytest.raises(tkjit.ShapeError, match="gated_linear: up"):
        tkjit.load("gated_linear")(x, gate, up[:3])
