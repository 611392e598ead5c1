"""transpose, embedding, reduce, scan, histogram, top_k and sampling on a GPU."""

from __future__ import annotations

import pytest
import torch

import tkjit

pytestmark = pytest.mark.gpu
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(4096, 1000), (3, 1001, 65), (5000, 32, 32)])
def test_transpose(gpu, dtype, shape):
    x = torch.randn(shape, device=gpu).to(dtype)
    assert torch.equal(tkjit.load("transpose")(x), x.mT)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [64, 767, 4096])
def test_embedding(gpu, dtype, dim):
    weight, index = torch.randn(1000, dim, device=gpu).to(dtype), torch.randint(1000, (50, 300), device=gpu)
    assert torch.equal(tkjit.load("embedding")(index, weight), weight[index])


@pytest.mark.parametrize("op", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("shape", [(100, 1000), (3, 1_000_001), (50_000_003,)])
def test_reduce(gpu, shape, op):
    x = torch.rand(shape, device=gpu)
    exact = getattr(torch, op)(x.double(), -1)
    torch.testing.assert_close(tkjit.load("reduce")(x, op).double(), exact, rtol=2e-6, atol=0)


@pytest.mark.parametrize("shape", [(1000, 100), (7, 20_001), (30_000_001,)])
def test_scan(gpu, shape):
    x = torch.randint(-(2**31), 2**31, shape, dtype=torch.int32, device=gpu)
    for _ in range(5):  # the order of the blocks differs
        assert torch.equal(tkjit.load("scan")(x), x.cumsum(-1, dtype=torch.int32))
    x = torch.rand(shape, device=gpu)
    torch.testing.assert_close(tkjit.load("scan")(x).double(), x.double().cumsum(-1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bins", [1, 256, 12288])
def test_histogram(gpu, bins):
    x = torch.rand(10_000_001, device=gpu)
    histogram = tkjit.load("histogram")
    assert torch.equal(histogram(x, bins), histogram.specs[0].reference(x, bins, 0.0, 1.0, counts=None))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n", "k"), [(100, 100), (4096, 64), (128_256, 1024)])
def test_top_k(gpu, dtype, n, k):
    x = torch.randn(50, n, device=gpu).to(dtype)
    values, indices = torch.sort(x, dim=-1, descending=True, stable=True)
    largest = tkjit.load("top_k")(x, k)
    assert torch.equal(largest.values, values[:, :k])
    assert torch.equal(largest.indices, indices[:, :k])


@pytest.mark.parametrize("limits", [{}, {"top_k": 50}, {"top_p": 0.8, "temperature": 0.7}], ids=str)
def test_sampling(gpu, limits):
    draws = 100_000
    logits = 2 * torch.randn(1000, device=gpu)
    index = tkjit.load("sampling")(logits.expand(draws, 1000).contiguous(), **limits)
    order = logits.argsort(descending=True)
    chances = (logits.double() / limits.get("temperature", 1.0)).softmax(-1)
    chances[order[limits.get("top_k", 1000) :]] = 0
    before = chances[order].cumsum(0) - chances[order]
    chances[order[before >= limits.get("top_p", 1.0)]] = 0
    chances /= chances.sum()
    shares = torch.bincount(index, minlength=1000) / draws
    assert not shares[chances == 0].any()
    assert bool(((shares - chances).abs() <= 6 * (chances / draws).sqrt() + 1e-4).all())
