"""FlashAttention-3, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import tkjit
from benchmarks.real_libraries.case import Case, Result, host_function, normal, source
from tkjit import Align, HeaderLibrary, In, Out, Tensor

NEEDS = ["cutlass", "flash_attention"]
FLAGS = ["-DFLASHATTENTION_DISABLE_LOCAL", "-DFLASHATTENTION_DISABLE_VARLEN"]


def forward(libraries: Sequence[HeaderLibrary], dims: int, is_causal: bool, cluster: int) -> tkjit.Kernel:
    @host_function(
        source("flash_attention_forward.cu", DIMS=dims, CAUSAL=str(is_causal).lower(), CLUSTER=cluster),
        "attended",
        libraries,
        {"batches": "B", "queries": "S", "keys": "T", "heads": "H", "kv_heads": "G"},
        flags=FLAGS,
        constraints=f"D == {dims}",
    )
    def attended(
        q: In[Tensor, "bfloat16", "B", "S", "H", "D", Align(16)],
        k: In[Tensor, "bfloat16", "B", "T", "G", "D", Align(16)],
        v: In[Tensor, "bfloat16", "B", "T", "G", "D", Align(16)],
        o: Out[Tensor, "bfloat16", "B", "S", "H", "D", Align(16)],
        lse: Out[Tensor, "float32", "B", "H", "S"],
    ) -> tuple[Tensor, Tensor]:
        return attention(q, k, v, is_causal)

    return attended


def backward(libraries: Sequence[HeaderLibrary], dims: int, is_causal: bool) -> tkjit.Kernel:
    @host_function(
        source("flash_attention_backward.cu", DIMS=dims, CAUSAL=str(is_causal).lower(), RUN=f"run_mha_bwd_hdim{dims}"),
        "differentiated",
        libraries,
        {"batches": "B", "queries": "S", "keys": "T", "heads": "H"},
        flags=FLAGS,
        constraints=f"D == {dims}",
    )
    def differentiated(
        q: In[Tensor, "bfloat16", "B", "S", "H", "D", Align(16)],
        k: In[Tensor, "bfloat16", "B", "T", "H", "D", Align(16)],
        v: In[Tensor, "bfloat16", "B", "T", "H", "D", Align(16)],
        o: In[Tensor, "bfloat16", "B", "S", "H", "D", Align(16)],
        lse: In[Tensor, "float32", "B", "H", "S"],
        of_o: In[Tensor, "bfloat16", "B", "S", "H", "D", Align(16)],
        of_q: Out[Tensor, "bfloat16", "B", "S", "H", "D", Align(16)],
        of_k: Out[Tensor, "bfloat16", "B", "T", "H", "D", Align(16)],
        of_v: Out[Tensor, "bfloat16", "B", "T", "H", "D", Align(16)],
    ) -> tuple[Tensor, Tensor, Tensor]:
        return gradients(q, k, v, of_o, is_causal)

    return differentiated


def attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool) -> tuple[Tensor, Tensor]:
    """Return the output, and the logarithms of the sums of exponentials."""
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], 2) for x in (k, v))
    scores = torch.einsum("bshd,bthd->bhst", q, k) / q.shape[-1] ** 0.5
    if is_causal:
        rows, cols = scores.shape[-2:]
        scores = scores.masked_fill(~torch.ones(rows, cols, dtype=torch.bool).tril(cols - rows), -torch.inf)
    return torch.einsum("bhst,bthd->bshd", scores.softmax(-1), v), scores.logsumexp(-1)


def gradients(q: Tensor, k: Tensor, v: Tensor, of_o: Tensor, is_causal: bool) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    output, _ = attention(q, k, v, is_causal)
    of_q, of_k, of_v = torch.autograd.grad(output, (q, k, v), of_o)
    return of_q, of_k, of_v


def relative_to_largest(*exact: Tensor) -> tuple[Result, ...]:
    return tuple(Result(one, one.abs().max()) for one in exact)


def forward_case(dims: int, is_causal: bool, queries: int, keys: int, heads: int, kv_heads: int, cluster: int) -> Case:
    notes = f"{', causal' if is_causal else ''}{', cluster 2 x 1' if cluster > 1 else ''}"
    return Case(
        f"FlashAttention-3, forward, {dims} dimensions{notes}",
        "90a",
        NEEDS,
        lambda libraries: forward(libraries, dims, is_causal, cluster),
        lambda: (
            normal(1, queries, heads, dims),
            normal(1, keys, kv_heads, dims),
            normal(1, keys, kv_heads, dims),
        ),
        lambda q, k, v: relative_to_largest(*attention(q.double(), k.double(), v.double(), is_causal)),
    )


def backward_case(dims: int, is_causal: bool, queries: int, keys: int, heads: int) -> Case:
    def arguments() -> tuple[Tensor, ...]:
        q, k, v = (normal(1, rows, heads, dims) for rows in (queries, keys, keys))
        o, lse = attention(q.double(), k.double(), v.double(), is_causal)
        return q, k, v, o.bfloat16(), lse.float(), normal(1, queries, heads, dims)

    def results(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, of_o: Tensor) -> tuple[Result, ...]:
        return relative_to_largest(*gradients(q.double(), k.double(), v.double(), of_o.double(), is_causal))

    return Case(
        f"FlashAttention-3, backward, {dims} dimensions{', causal' if is_causal else ''}",
        "90a",
        NEEDS,
        lambda libraries: backward(libraries, dims, is_causal),
        arguments,
        results,
    )


CASES = [
    forward_case(128, False, 256, 400, 2, 1, cluster=2),
    forward_case(64, True, 256, 256, 2, 2, cluster=1),
    backward_case(64, True, 192, 256, 1),
    backward_case(128, False, 192, 256, 1),
]
