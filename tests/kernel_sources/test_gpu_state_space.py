"""selective_scan and linear_attention on a GPU: the values and gradients of their references."""

from __future__ import annotations

import pytest
import torch

import tkjit

pytestmark = pytest.mark.gpu
ROUNDING = {torch.float32: 1e-4, torch.bfloat16: 0.02, torch.float16: 0.003}


def compare(name: str, *arguments: object) -> None:
    """Compare a call's results and gradients with the reference's, which are in float32."""
    kernel = tkjit.load(name)
    dtype = arguments[0].dtype
    ours, exact = (
        [
            one.detach().to(kind or one.dtype, copy=True).requires_grad_() if isinstance(one, torch.Tensor) else one
            for one in arguments
        ]
        for kind in (None, torch.float32)
    )
    results = kernel(*ours)
    expected = kernel.specs[0].reference(*exact, **dict.fromkeys(type(results)._fields))
    grads = [torch.randn_like(one) for one in results]
    torch.autograd.backward(tuple(results), grads)
    torch.autograd.backward(expected, [one.to(wide.dtype) for one, wide in zip(grads, expected, strict=True)])
    pairs = [*zip(results, expected, strict=True)]
    pairs += [(got.grad, wide.grad) for got, wide in zip(ours, exact, strict=True) if isinstance(got, torch.Tensor)]
    for got, wanted in pairs:
        assert got.shape == wanted.shape
        assert (got.float() - wanted).norm() <= ROUNDING[dtype] * wanted.norm() + 1e-6


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 2, 1), (3, 40, 2, 257, 16), (2, 9, 1, 2048, 5), (1, 4, 4, 5001, 128)], ids=str
)
def test_selective_scan(gpu, sizes, dtype):
    batch, dim, groups, length, states = sizes
    u, delta, z = torch.randn(3, batch, dim, length, device=gpu).to(dtype)
    b, c = torch.randn(2, batch, groups, states, length, device=gpu).to(dtype)
    rates, skip, bias = -torch.rand(dim, states, device=gpu), *torch.randn(2, dim, device=gpu)
    compare("selective_scan", u, delta.abs(), rates, b, c, None, None, None, False)
    state = torch.randn(batch, dim, states, device=gpu)
    compare("selective_scan", u, delta, rates, b, c, skip, z, bias, True, state)


def test_selective_scan_is_the_same_in_each_call(gpu):
    u, delta = torch.randn(2, 4, 300, 1000, device=gpu)
    tensors = [u, delta, -torch.rand(300, 16, device=gpu), *torch.randn(2, 4, 1, 16, 1000, device=gpu)]
    found = []
    for _ in range(3):
        ours = [one.clone().requires_grad_() for one in tensors]
        tkjit.load("selective_scan")(*ours, delta_softplus=True).y.square().sum().backward()
        found.append([one.grad for one in ours])
    assert all(torch.equal(one, other) for other in found[1:] for one, other in zip(found[0], other, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("length", [1, 64, 1000, 4096])
def test_linear_attention(gpu, length, dim, dtype):
    q, k, v = torch.randn(3, 2, 3, length, dim, device=gpu).to(dtype)
    compare("linear_attention", q, k, v, None, None, None)
    decays, state = torch.tensor([0.0, -0.01, -1.0], device=gpu), torch.randn(2, 3, dim, dim, device=gpu)
    compare("linear_attention", q, k, v, decays, state, 0.3)
