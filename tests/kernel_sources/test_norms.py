"""rms_norm, add_rms_norm and layer_norm on the CPU: values, gradients, unaligned rows and unusual numbers."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit

pytestmark = pytest.mark.compiles
F = torch.nn.functional
# one for each variant of tkjit::Row: a part of a warp, a warp, a block, a large block, and a row that is read twice
LENGTHS = (7, 1000, 1031, 9000, 16385)
ROUNDING = {torch.float32: 2e-6, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def rows(n: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.randn(2, 3, n, generator=torch.Generator().manual_seed(seed)).to(dtype)


def assert_near(got: torch.Tensor, exact: torch.Tensor) -> None:
    assert got.shape == exact.shape
    bound = 1.01 * ROUNDING[got.dtype] * exact.abs() + 1e-5
    assert bool(((got.double() - exact).abs() <= bound).all())


@pytest.mark.parametrize("n", sample(LENGTHS, "1031"))
@pytest.mark.parametrize("dtype", sample(ROUNDING, "torch.bfloat16"))
def test_results(n, dtype):
    x, residual, weight, bias = rows(n, dtype), rows(n, dtype, 1), rows(n, dtype, 2)[0, 0], rows(n, dtype, 3)[0, 0]
    wide, sizes = x.double(), (n,)
    assert_near(tkjit.load("rms_norm")(x), F.rms_norm(wide, sizes, None, 1e-6))
    assert_near(tkjit.load("rms_norm")(x, weight, 0.5), F.rms_norm(wide, sizes, weight.double(), 0.5))
    y, total = tkjit.load("add_rms_norm")(x, residual, weight)
    assert torch.equal(total, x + residual)
    assert_near(y, F.rms_norm(total.double(), sizes, weight.double(), 1e-6))
    y, total = tkjit.load("add_layer_norm")(x, residual, weight, bias)
    assert torch.equal(total, x + residual)
    assert_near(y, F.layer_norm(total.double(), sizes, weight.double(), bias.double()))
    layer_norm = tkjit.load("layer_norm")
    assert_near(layer_norm(x), F.layer_norm(wide, sizes))
    assert_near(layer_norm(x, weight), F.layer_norm(wide, sizes, weight.double()))
    assert_near(layer_norm(x, weight, bias), F.layer_norm(wide, sizes, weight.double(), bias.double()))
    assert_near(layer_norm(x, bias=bias), F.layer_norm(wide, sizes, None, bias.double()))


def test_layer_norm_of_numbers_with_a_large_mean():
    x = 1000 + torch.randn(3, 200)
    exact = F.layer_norm(x.double(), (200,))
    assert (tkjit.load("layer_norm")(x) - exact).abs().max() < 1e-3  # the difference of squares would be off by 0.1


def test_rows_at_any_address():
    storage = torch.randn(4 * 200 + 1)
    x = storage[1:].view(4, 200)  # no row begins at a multiple of 16 bytes
    assert_near(tkjit.load("rms_norm")(x), F.rms_norm(x.double(), (200,), None, 1e-6))


def test_a_row_with_nan_or_infinity_does_not_affect_others():
    x = torch.randn(3, 40)
    x[0, 3], x[2, 5] = float("nan"), float("inf")
    y = tkjit.load("rms_norm")(x)
    assert y[0].isnan().all() and torch.allclose(y[1], F.rms_norm(x[1], (40,), None, 1e-6))
    assert y[2, 5].isnan() and not y[2, :5].any()
    assert torch.equal(y.isnan(), F.rms_norm(x, (40,), None, 1e-6).isnan())


@pytest.mark.parametrize("names", ["", "weight", "weight bias"])
def test_gradients(names):
    kernel, reference = (tkjit.load("rms_norm"), F.rms_norm) if "bias" not in names else (None, F.layer_norm)
    kernel = kernel or tkjit.load("layer_norm")
    given = [torch.randn(2, 3, 20), *(torch.randn(20) for _ in names.split())]
    ours = [tensor.clone().requires_grad_() for tensor in given]
    theirs = [tensor.double().requires_grad_() for tensor in given]
    grad = torch.randn(2, 3, 20)
    kernel(*ours, eps=1e-5).backward(grad)
    padding = [None] * (2 if "bias" in names or reference is F.layer_norm else 1)
    reference(theirs[0], (20,), *[*theirs[1:], *padding][: len(padding)], 1e-5).backward(grad.double())
    for mine, exact in zip(ours, theirs, strict=True):
        assert torch.allclose(mine.grad.double(), exact.grad, atol=1e-5)


@pytest.mark.parametrize("name", ["add_rms_norm", "add_layer_norm"])
def test_gradients_of_a_sum(name):
    given = [torch.randn(2, 3, 20), torch.randn(2, 3, 20), torch.randn(20)]
    given += [torch.randn(20)] if name == "add_layer_norm" else []
    ours = [tensor.clone().requires_grad_() for tensor in given]
    theirs = [tensor.double().requires_grad_() for tensor in given]
    grads = torch.randn(2, 3, 20), torch.randn(2, 3, 20)
    torch.autograd.backward(tkjit.load(name)(*ours, eps=1e-5), grads)
    total = theirs[0] + theirs[1]
    normalize = F.layer_norm if name == "add_layer_norm" else F.rms_norm
    y = normalize(total, (20,), *theirs[2:], eps=1e-5)
    torch.autograd.backward((y, total), [grad.double() for grad in grads])
    for mine, exact in zip(ours, theirs, strict=True):
        assert torch.allclose(mine.grad.double(), exact.grad, atol=1e-5)


# rows of whole groups and others, for warps and blocks, and more rows than the blocks or warps that share them
@pytest.mark.parametrize(
    "shape", [(1700, 8), (1590, 20), (5, 1032), (3, 3001), (140, 8200), (2, 8201), (134, 16400)], ids=str
)
@pytest.mark.parametrize("dtype", sample([torch.float32, torch.bfloat16], "torch.bfloat16"))
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_gradients_of_any_shape(name, dtype, shape):
    if shape[0] * shape[1] > 1_000_000 and (name, dtype) != ("layer_norm", torch.bfloat16):
        shape = (2, shape[1])  # the simulator is slow
    n = shape[1]
    x, grad, weight = (torch.randn(size).to(dtype) for size in (shape, shape, (n,)))
    kernel = tkjit.load(f"{name}_gradient")
    grad_x, *sums = kernel(grad, x, weight)
    exact = [one.double().requires_grad_() for one in (x, weight, torch.zeros(n))]
    if name == "rms_norm":
        F.rms_norm(exact[0], (n,), exact[1], 1e-6).backward(grad.double())
    else:
        F.layer_norm(exact[0], (n,), exact[1], exact[2], 1e-5).backward(grad.double())
    tolerance = max(2 * torch.finfo(dtype).eps, 5e-5)  # a short row may have a small variance, so a large gradient
    torch.testing.assert_close(grad_x.double(), exact[0].grad, rtol=tolerance, atol=tolerance)
    for one, other in zip(sums, exact[1:], strict=False):
        torch.testing.assert_close(one.double().sum(0), other.grad, rtol=1e-4, atol=1e-4)


def test_a_gradient_of_rows_at_an_odd_address():
    x, grad = (torch.randn(5 * 64 + 1)[1:].view(5, 64) for _ in range(2))
    kernel, weight = tkjit.load("rms_norm_gradient"), torch.randn(64)
    for one, other in zip(kernel(grad, x, weight), kernel(grad.clone(), x.clone(), weight), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("shape", [(0, 8), (3, 0)])
def test_empty_tensors(shape):
    assert tkjit.load("layer_norm")(torch.empty(shape)).shape == shape
    x, weight = torch.empty(shape).requires_grad_(), torch.ones(shape[-1]).requires_grad_()
    tkjit.load("rms_norm")(x, weight).sum().backward()
    assert x.grad.shape == shape and torch.equal(weight.grad, torch.zeros(shape[-1]))


def test_a_weight_of_another_length_or_dtype_is_rejected():
    with pytest.raises(tkjit.ShapeError, match="rms_norm: weight"):
        tkjit.load("rms_norm")(torch.randn(2, 8), torch.randn(7))
    with pytest.raises(tkjit.ArgumentError, match="rms_norm: weight"):
        tkjit.load("rms_norm")(torch.randn(2, 8), torch.randn(8).bfloat16())
