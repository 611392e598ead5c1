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


def sequences(gpu, *lengths) -> list[torch.Tensor]:
    """Return the cu_seqlens of queries and keys."""
    return [torch.tensor([0, *one], device=gpu).cumsum(0).int() for one in lengths]


@pytest.mark.parametrize(
    ("queries", "keys"),
    [
        ([1, 64, 0, 65, 1000, 128, 3], [1, 64, 10, 65, 1000, 0, 3]),
        ([128] * 20, [128] * 20),
        ([7] * 300, [90] * 300),
        ([4000, 1, 30], [4000, 2, 500]),
    ],
    ids=("lengths of all kinds", "whole tiles", "many sequences", "a long sequence"),
)
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": 100}, {"softcap": 2.0, "scale": 1.0}], ids=str)
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_packed_sequences(gpu, dim, options, queries, keys):
    q, grad_o = torch.randn(2, sum(queries) + 5, 4, dim, device=gpu).bfloat16()  # five rows belong to no sequence
    k, v = torch.randn(2, sum(keys) + 5, 2, dim, device=gpu).bfloat16()
    cu_seqlens = sequences(gpu, queries, keys)
    every = {"causal": False, "window": 0, "softcap": 0.0, "scale": None} | options
    attention, gradient = tkjit.load("attention"), tkjit.load("attention_gradient")
    o, lse = attention(q, k, v, *cu_seqlens, **options)
    expected = attention.specs[1].reference(q, k, v, *cu_seqlens, **every, o=None, lse=None)
    torch.testing.assert_close(o, expected[0], rtol=0.02, atol=0.01)
    torch.testing.assert_close(lse, expected[1], rtol=1e-4, atol=1e-4)

    arguments = grad_o, torch.randn_like(lse), q, k, v, *cu_seqlens, lse
    grads = gradient(*arguments, **options)
    outputs = dict.fromkeys(("grad_q", "grad_k", "grad_v"))
    for got, wanted in zip(grads, gradient.specs[1].reference(*arguments, **every, **outputs), strict=True):
        torch.testing.assert_close(got, wanted, rtol=0.02, atol=0.02 * float(wanted.abs().max()))
    assert all(torch.equal(first, second) for first, second in zip(grads, gradient(*arguments, **options), strict=True))


def test_packed_sequences_among_values_that_are_not_finite(gpu):
    q, k, v = torch.randn(3, 300, 4, 128, device=gpu).bfloat16()
    (cu_seqlens,) = sequences(gpu, [100, 70, 130])
    own = slice(100, 170)
    (alone,) = sequences(gpu, [70])
    expected = tkjit.load("attention")(q[own], k[own], v[own], alone, alone)
    for tensor in (q, k, v):
        tensor[:100], tensor[170:] = torch.nan, torch.inf
    o, lse = tkjit.load("attention")(q, k, v, cu_seqlens, cu_seqlens)
    assert torch.equal(o[own], expected.o) and torch.equal(lse[:, own], expected.lse)


def test_packed_sequences_in_a_cuda_graph(gpu):
    q, k, v = torch.randn(3, 300, 4, 128, device=gpu).bfloat16()
    (cu_seqlens,) = sequences(gpu, [100, 70, 130])
    attention = tkjit.load("attention")
    attention(q, k, v, cu_seqlens, cu_seqlens)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, _ = attention(q, k, v, cu_seqlens, cu_seqlens)
    cu_seqlens.copy_(*sequences(gpu, [3, 250, 20]))  # no length was read on the host
    graph.replay()
    torch.testing.assert_close(o, attention(q, k, v, cu_seqlens, cu_seqlens).o, rtol=0, atol=0)


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
