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
