"""attention on a GPU: the same results as torch's, and as the simulator's where torch has no such option."""

from __future__ import annotations

import pytest
import torch

import tkjit

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 64, 129, 1000, 4096])
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_agreement_with_torch(gpu, dim, length, causal, dtype):
    q = torch.randn(2, 8, length, dim, device=gpu, dtype=dtype)
    k, v = (torch.randn(2, 2, length, dim, device=gpu, dtype=dtype) for _ in range(2))
    wide = (tensor.float() for tensor in (q, k, v))
    exact = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=causal, enable_gqa=True)
    torch.testing.assert_close(tkjit.load("attention")(q, k, v, causal).o.float(), exact, rtol=0.02, atol=0.01)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 129, 1000, 4096])
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_agreement_with_gradients_of_torch(gpu, dim, length, causal, dtype):
    q = torch.randn(2, 8, length, dim, device=gpu, dtype=dtype)
    k, v = (torch.randn(2, 2, length, dim, device=gpu, dtype=dtype) for _ in range(2))
    grad_o = torch.randn_like(q)
    ours, wide = ([tensor.to(kind).requires_grad_() for tensor in (q, k, v)] for kind in (dtype, torch.float32))
    o = tkjit.load("attention")(*ours, causal).o
    grads = torch.autograd.grad(o, ours, grad_o, retain_graph=True)
    exact = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=causal, enable_gqa=True)
    for got, wanted in zip(grads, torch.autograd.grad(exact, wide, grad_o.float()), strict=True):
        torch.testing.assert_close(got.float(), wanted, rtol=0.03, atol=0.03 * float(wanted.abs().max()))
        assert float((got.float() - wanted).norm()) <= 0.015 * float(wanted.norm()) + 1e-3 * wanted.numel() ** 0.5
    again = torch.autograd.grad(o, ours, grad_o)
    assert all(torch.equal(first, second) for first, second in zip(grads, again, strict=True))


@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize(
    "options",
    [{"causal": True}, {"window": 100}, {"softcap": 2.0, "scale": 1.0}],
    ids=str,
)
def test_agreement_with_gradients_of_the_reference(gpu, options, dim):
    q, grad_o = torch.randn(2, 2, 4, 300, dim, device=gpu).bfloat16()
    k, v = torch.randn(2, 2, 2, 500, dim, device=gpu).bfloat16()
    inner = torch.randn(2, 4, 300, device=gpu)
    lse = tkjit.load("attention")(q, k, v, **options).lse
    kernel = tkjit.load("attention_gradient")
    grads = kernel(grad_o, inner, q, k, v, lse, **options)
    every = {"causal": False, "window": 0, "softcap": 0.0, "scale": None} | options
    outputs = dict.fromkeys(("grad_q", "grad_k", "grad_v"))
    expected = kernel.specs[0].reference(grad_o, inner, q, k, v, lse, **every, **outputs)
    for got, wanted in zip(grads, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0.02, atol=0.02 * float(wanted.abs().max()))


@pytest.mark.parametrize(
    "options",
    [{"causal": True}, {"window": 100}, {"softcap": 2.0, "scale": 1.0}],
    ids=str,
)
def test_agreement_with_the_simulator(gpu, options):
    q, k, v = torch.randn(1, 2, 300, 64), torch.randn(1, 1, 500, 64), torch.randn(1, 1, 500, 64)
    q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
    attention = tkjit.load("attention")
    o, lse = attention(q.to(gpu), k.to(gpu), v.to(gpu), **options)
    simulated = attention(q, k, v, **options)
    torch.testing.assert_close(o.cpu(), simulated.o, rtol=0.02, atol=0.01)
    torch.testing.assert_close(lse.cpu(), simulated.lse, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize(("batch", "heads", "key_heads"), [(1, 32, 8), (20, 8, 8), (3, 40, 1)])
def test_paged_attention(gpu, batch, heads, key_heads, dim):
    pages, page_size = 200, 16
    q = torch.randn(batch, heads, dim, device=gpu).bfloat16()
    k, v = torch.randn(2, pages, page_size, key_heads, dim, device=gpu).bfloat16()
    table = torch.randint(pages, (batch, 150), dtype=torch.int32, device=gpu)
    lengths = torch.randint(150 * page_size + 1, (batch,), dtype=torch.int32, device=gpu)
    kernel = tkjit.load("paged_attention")
    for window in (0, 1000):
        result = kernel(q, k, v, table, lengths, window)
        scratch = dict.fromkeys(("parts", "part_lse", "finished", "o", "lse"))
        expected = kernel.specs[0].reference(q, k, v, table, lengths, window, 0.0, None, **scratch)
        torch.testing.assert_close(result.o.float(), expected[0].float(), rtol=0.02, atol=0.02)
        torch.testing.assert_close(result.lse, expected[1], rtol=1e-4, atol=1e-4)
