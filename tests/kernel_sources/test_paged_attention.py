"""paged_attention on the CPU, against scores in float64."""

from __future__ import annotations

import math

import pytest
import torch
from support.sampling import sample

import tkjit

pytestmark = pytest.mark.compiles


def inputs(heads, key_heads, dim, page_size, lengths, dtype=torch.bfloat16) -> list[torch.Tensor]:
    """Return the arguments of a call. The pages are shuffled, and unused ones contain NaN."""
    generator = torch.Generator().manual_seed(sum(lengths))
    needed = [math.ceil(length / page_size) for length in lengths]
    order = torch.randperm(sum(needed) + 3, generator=generator)
    table = torch.full((len(lengths), max(needed) + 1), -1, dtype=torch.int32)
    pages = torch.full((2, len(order), page_size, key_heads, dim), math.nan)
    for i, count in enumerate(needed):
        table[i, :count] = order[sum(needed[:i]) :][:count]
        pages[:, table[i, :count].long()] = torch.randn((2, count, page_size, key_heads, dim), generator=generator)
    q = torch.randn((len(lengths), heads, dim), generator=generator)
    return [q.to(dtype), *pages.to(dtype), table, torch.tensor(lengths, dtype=torch.int32)]


def exact(q, k_pages, v_pages, table, lengths, window=0, softcap=0.0, scale=None):
    """Compute each head of each sequence on its own, as the docstring describes it."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    o, lse = torch.zeros_like(q, dtype=torch.float64), torch.full(q.shape[:2], -math.inf, dtype=torch.float64)
    for sequence, length in enumerate(lengths.tolist()):
        keys = range(max(0, length - window) if window > 0 else 0, length)
        places = [(int(table[sequence, key // k_pages.shape[1]]), key % k_pages.shape[1]) for key in keys]
        for head in range(q.shape[1] if places else 0):
            shared = head * k_pages.shape[2] // q.shape[1]
            k, v = (
                torch.stack([pages[page, slot, shared] for page, slot in places]).double()
                for pages in (k_pages, v_pages)
            )
            scores = k @ q[sequence, head].double() * scale
            if softcap > 0:
                scores = softcap * torch.tanh(scores / softcap)
            o[sequence, head], lse[sequence, head] = scores.softmax(0) @ v, scores.logsumexp(0)
    return o, lse


CASES = {
    "one key": ((1, 1, 64, 16, [1]), {}),
    "sequences of all lengths": ((4, 2, 64, 16, [0, 1, 63, 64, 65, 300]), {}),
    "several blocks for a sequence": ((2, 1, 64, 16, [1500, 3]), {}),
    "more than 16 heads": ((40, 2, 64, 16, [30, 100]), {}),
    "a window": ((4, 2, 64, 16, [500, 20, 0]), {"window": 70}),
    "a soft cap and a scale": ((2, 2, 64, 8, [50]), {"softcap": 2.0, "scale": 1.0}),
    "pages of odd sizes": ((2, 1, 128, 7, [200, 7]), {}),
    "the widest heads": ((2, 1, 256, 32, [100]), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    shape, options = CASES[name]
    tensors = inputs(*shape)
    result = tkjit.load("paged_attention")(*tensors, **options)
    for got, wanted, allowed in zip(result, exact(*tensors, **options), (2.0**-7, 1e-5), strict=True):
        assert torch.equal(got.isfinite(), wanted.isfinite())
        difference = (got.double() - wanted).nan_to_num(0, 0, 0).abs()
        assert bool((difference <= allowed * wanted.nan_to_num(0, 0, 0).abs() + allowed).all())


@pytest.mark.parametrize("dtype", sample((torch.bfloat16, torch.float16), "torch.float16"))
def test_dtypes(dtype):
    tensors = inputs(2, 1, 64, 16, [100, 20], dtype)
    o, _ = tkjit.load("paged_attention")(*tensors)
    assert o.dtype == dtype
    torch.testing.assert_close(o.double(), exact(*tensors)[0], rtol=0.01, atol=0.01)


def test_a_page_that_does_not_exist_gives_nan():
    q, k, v, table, lengths = inputs(2, 1, 64, 16, [40, 40, 40, 40])
    table[1, 2], table[2, 0], lengths[3] = -1, 10**6, 16 * table.shape[1] + 1
    o, lse = tkjit.load("paged_attention")(q, k, v, table, lengths)
    for one in (o.isnan().all(-1), lse.isnan()):
        assert one.tolist() == [[False] * 2, [True] * 2, [True] * 2, [True] * 2]


def test_heads_that_cannot_be_shared_are_rejected():
    q, k, v, table, lengths = inputs(2, 2, 64, 16, [5])
    with pytest.raises(tkjit.ShapeError, match="H % max"):
        tkjit.load("paged_attention")(torch.cat((q, q[:, :1]), 1), k, v, table, lengths)
