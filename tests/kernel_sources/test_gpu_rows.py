"""Row-wise kernels on a GPU, with each variant of ``tkjit::Row`` and rows at odd addresses."""

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
        y, total = tkjit.load("add_layer_norm")(x, residual, weight, bias)
        assert_near(y, F.layer_norm(total.double(), (n,), weight.double(), bias.double()))


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("n", LENGTHS)
def test_norms_with_8_bits(gpu, n, dtype):
    x, residual = (torch.randn(37, n, device=gpu).to(dtype) for _ in range(2))
    weight = torch.randn(n, device=gpu).to(dtype)
    columns = torch.arange(n, device=gpu) // 128
    for name, arguments, total in (
        ("rms_norm_fp8", (x, weight), x),
        ("add_rms_norm_fp8", (x, residual, weight), x + residual),
    ):
        kernel, exact = tkjit.load(name), F.rms_norm(total.double(), (n,), weight.double(), 1e-6)
        of_rows, of_blocks = kernel(*arguments), kernel(*arguments, block_size=128)
        torch.testing.assert_close(of_rows.scales.double(), exact.abs().amax(-1) / 448, rtol=1e-5, atol=1e-12)
        for y, scales in ((of_rows.y, of_rows.scales[:, None]), (of_blocks.y, of_blocks.scales[:, columns])):
            error = (y.double() * scales - exact).abs()
            assert bool((error <= 1.001 * (exact.abs() / 16 + scales * 2.0**-10)).all())


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("n", [n for n in LENGTHS if n > 1])
def test_gradients_of_norms(gpu, n, dtype):
    x, grad, weight = (torch.randn(size, device=gpu).to(dtype) for size in ((1700, n), (1700, n), (n,)))
    exact_x, exact_weight = x.double().requires_grad_(), weight.double().requires_grad_()
    F.layer_norm(exact_x, (n,), exact_weight).backward(grad.double())
    grad_x, grad_weight, grad_bias = tkjit.load("layer_norm_gradient")(grad, x, weight)
    assert_near(grad_x, exact_x.grad)
    torch.testing.assert_close(grad_weight.sum(0).double(), exact_weight.grad, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(grad_bias.sum(0).double(), grad.double().sum(0), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("n", [999, 1000, 8192])
@pytest.mark.parametrize("first", [0, 1])
def test_gradients_of_add_rms_norm(gpu, n, first):
    x, residual = (torch.randn(300 * n + first, device=gpu)[first:].view(300, n).requires_grad_() for _ in range(2))
    weight = torch.randn(n, device=gpu).requires_grad_()
    exact_x, exact_weight = x.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    total = exact_x + residual.detach().double()
    (F.rms_norm(total, (n,), exact_weight, 1e-6).square().sum() + total.square().sum()).backward()
    y, total = tkjit.load("add_rms_norm")(x, residual, weight)
    (y.square().sum() + total.square().sum()).backward()
    torch.testing.assert_close(x.grad.double(), exact_x.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(weight.grad.double(), exact_weight.grad, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("n", [999, 1000, 8192])
def test_rows_at_any_address(gpu, n):
    x = torch.randn(8 * n + 1, device=gpu).bfloat16()[1:].view(8, n)
    assert_near(tkjit.load("rms_norm")(x), F.rms_norm(x.double(), (n,), None, 1e-6))


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("n", LENGTHS)
def test_softmax_and_cross_entropy(gpu, n, dtype):
    x = (3 * torch.randn(37, n, device=gpu)).to(dtype)
    target = torch.randint(n, (37,), device=gpu)
    assert_near(tkjit.load("softmax")(x), x.double().softmax(-1))
    ours, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    result = tkjit.load("cross_entropy")(ours, target)
    loss = F.cross_entropy(exact, target, reduction="none")
    torch.testing.assert_close(result.loss.double(), loss, rtol=1e-5, atol=1e-5)
    result.loss.sum().backward()
    loss.sum().backward()
    assert_near(ours.grad, exact.grad)
    fused = tkjit.load("fused_cross_entropy")(x, target)
    torch.testing.assert_close(fused.loss, result.loss.detach())
    assert_near(x, exact.grad)


@pytest.mark.parametrize("n", [1, 53, 2048, 14336])
def test_silu_mul(gpu, n):
    gate, up = (torch.randn(50, n, device=gpu).bfloat16() for _ in range(2))
    y = tkjit.load("silu_mul")(gate, up)
    assert_near(y, F.silu(gate.double()) * up.double())
    assert torch.equal(tkjit.load("silu_mul")(torch.cat((gate, up), -1)), y)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("pairs", [64, 24, 9])
def test_rotary(gpu, pairs, interleaved):
    x = torch.randn(3, 100, 8, 128, device=gpu).bfloat16()
    angles = torch.rand(100, pairs, device=gpu)
    arguments = (x, angles.cos(), angles.sin(), torch.randint(100, (3, 100), device=gpu), interleaved)
    kernel = tkjit.load("rotary")
    torch.testing.assert_close(kernel(*arguments), kernel.specs[0].reference(*arguments, y=None), rtol=0.01, atol=0.01)


@pytest.mark.parametrize("length", [1, 1000, 5001])
def test_causal_conv1d(gpu, length):
    x, weight, bias = (torch.randn(shape, device=gpu).bfloat16() for shape in ((3, 50, length), (50, 4), (50,)))
    ours, exact = (
        [one.detach().to(kind, copy=True).requires_grad_() for one in (x, weight, bias)]
        for kind in (x.dtype, torch.float64)
    )
    y = tkjit.load("causal_conv1d")(*ours, activation="silu")
    expected = F.silu(F.conv1d(F.pad(exact[0], (3, 0)), exact[1][:, None], exact[2], groups=50))
    assert_near(y, expected)
    grad = torch.randn_like(y)
    y.backward(grad)
    expected.backward(grad.double())
    for got, wanted in zip(ours, exact, strict=True):
        torch.testing.assert_close(got.grad.double(), wanted.grad, rtol=0.01, atol=1e-3)
