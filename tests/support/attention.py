"""Attention in float64, and the errors that tests of attention allow."""

from __future__ import annotations

import math

import torch


def exact(q, k, v, causal=False, window=0, softcap=0.0, scale=None):
    """Compute each query on its own, as the docstring describes it."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    q, k, v = q.double(), k.double(), v.double()
    o, lse = torch.zeros_like(q), torch.full(q.shape[:3], -math.inf, dtype=torch.float64)
    for batch in range(q.shape[0]):
        for head in range(q.shape[1]):
            shared = head * k.shape[1] // q.shape[1]
            for query in range(q.shape[2]):
                position = query + k.shape[2] - q.shape[2]
                end = max(0, position + 1) if causal or window > 0 else k.shape[2]
                first = max(0, position + 1 - window) if window > 0 else 0
                scores = k[batch, shared, first:end] @ q[batch, head, query] * scale
                if softcap > 0:
                    scores = softcap * torch.tanh(scores / softcap)
                if len(scores):
                    o[batch, head, query] = scores.softmax(0) @ v[batch, shared, first:end]
                    lse[batch, head, query] = scores.logsumexp(0)
    return o, lse


def near(result, expected) -> None:
    for got, wanted, allowed in zip(result, expected, (2.0**-7, 1e-5), strict=True):
        assert got.shape == wanted.shape
        assert torch.equal(got.isfinite(), wanted.isfinite())
        difference = (got.double() - wanted).nan_to_num(0, 0, 0).abs()
        assert bool((difference <= allowed * wanted.nan_to_num(0, 0, 0).abs() + allowed).all())


def near_gradients(got, expected) -> None:
    """Allow a few roundings, relative to the root mean squares of the element's row and of its head.

    The inputs are random, so one element of a hundred thousand may have twice as many.
    """
    for mine, wanted in zip(got, expected, strict=True):
        assert mine.shape == wanted.shape
        of_row, of_head = (wanted.square().mean(dims, keepdim=True).sqrt() for dims in (3, (2, 3)))
        allowed = 4 * torch.finfo(mine.dtype).eps * (wanted.abs() + of_row + of_head)
        error = (mine.double() - wanted).abs()
        assert bool((error <= 2 * allowed).all())
        assert int((error > allowed).sum()) <= max(1, error.numel() // 10_000)
