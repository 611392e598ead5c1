"""linear on the CPU, with Hopper's source and the portable one: shapes, activations, gradients and bad input."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit

pytestmark = pytest.mark.compiles
F = torch.nn.functional
FUNCTIONS = {
    "identity": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}
SHAPES = [
    ((16,), 64, 40),  # one tile of 64 rows
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
    shapes = (*leading, k), (n, k), (n,)
    x, weight, bias = (torch.randn(shape, generator=generator) for shape in shapes)
    return [tensor.to(dtype) for tensor in (x, weight / max(k, 1) ** 0.5, bias)]


@pytest.mark.parametrize("dtype", sample(("bfloat16", "float16", "float32"), "bfloat16"))
def test_shapes(arch, dtype):
    dtype = getattr(torch, dtype)
    rounding = {torch.float32: 4e-6, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}[dtype]
    for leading, k, n in SHAPES:
        x, weight, bias = arguments(leading, k, n, dtype)
        exact = F.linear(x.double(), weight.double(), bias.double())
        y = tkjit.load("linear")(x, weight, bias)
        assert y.shape == (*leading, n) and y.dtype == dtype
        assert bool(((y.double() - exact).abs() <= rounding * exact.abs() + 2e-5).all()), (leading, k, n)


@pytest.mark.parametrize("name", sample(FUNCTIONS, "gelu"))
def test_activations(name):
    x, weight, bias = arguments((20,), 16, 30, torch.float32)
    linear, f = tkjit.load("linear"), FUNCTIONS[name]
    torch.testing.assert_close(linear(x, weight, bias, name), f(F.linear(x, weight, bias)))
    torch.testing.assert_close(linear(x, weight, activation=name), f(F.linear(x, weight)))


@pytest.mark.parametrize("name", sample(FUNCTIONS, "gelu"))
def test_gradients(name):
    tensors = arguments((2, 5), 16, 30, torch.float32)
    ours = [tensor.clone().requires_grad_() for tensor in tensors]
    theirs = [tensor.clone().requires_grad_() for tensor in tensors]
    grad = torch.randn(2, 5, 30)
    tkjit.load("linear")(*ours, activation=name).backward(grad)
    FUNCTIONS[name](F.linear(*theirs)).backward(grad)
    for mine, exact in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, exact.grad)


def test_nan_and_infinity_stay_in_their_rows():
    x, weight, bias = arguments((3,), 8, 4, torch.float32)
    x[0, 2], x[1, 1] = float("nan"), float("inf")
    y = tkjit.load("linear")(x, weight, bias)
    assert y[0].isnan().all() and y[1].isinf().all()
    torch.testing.assert_close(y[2], F.linear(x[2], weight, bias))


def test_other_shapes_and_activations_are_rejected():
    x, weight, bias = arguments((3,), 8, 4, torch.float32)
    linear = tkjit.load("linear")
    with pytest.raises(tkjit.ShapeError, match="linear: weight"):
        linear(x, weight.T.contiguous())
    with pytest.raises(tkjit.ShapeError, match="linear: bias"):
        linear(x, weight, bias[:3])
    with pytest.raises(tkjit.ArgumentError, match="activation is 'swish'"):
        linear(x, weight, activation="swish")
