"""ThunderKittens' linear attention of Based, with a second-order Taylor series of the exponential as feature map."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


def small_keys(arguments):
    """Scale q and k down, because the series approximates the exponential only for small products."""
    return {name: arguments[name] / 4 for name in ("q", "k")}


@tkjit.kernel(
    "<thunderkittens>/kernels/based/linear_attn.cu",
    entry="based_linear_attention",
    struct="based_globals",
    fields="q k v o kv_a0 kv_a1 kv_a2 n",
    computed={"n": "N"},
    grid="H, B",
    block=CExpr("NUM_THREADS"),
    shared_memory=98000,
    constraints="N % 64 == 0",
    prepare=small_keys,
    tolerance=0.02,
    examples=[{"B": 2, "H": 4, "N": 384}, {"B": 1, "H": 1, "N": 64}],
)
def tk_based(
    q: In[Tensor, "bfloat16", "B", "H", "N", 16],
    k: In[Tensor, "bfloat16", "B", "H", "N", 16],
    v: In[Tensor, "bfloat16", "B", "H", "N", 64],
    o: Out[Tensor, "bfloat16", "B", "H", "N", 64],
    kv_a0: Out[Tensor, "bfloat16", "B", "H", 1, 64],
    kv_a1: Out[Tensor, "bfloat16", "B", "H", 64, 16],
    kv_a2: Out[Tensor, "bfloat16", "B", "H", 256, 64],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes causal attention with the weights ``1 + s + s * s / 2``, s = ``q @ k.T / 4``, without normalisation.

    The other results are the states after the last row, one for each order of the series: the sums of v, of v times
    k / 2, and of v times each product of two elements of k / sqrt(32).
    """
    import torch

    q, k, v = q.float(), k.float(), v.float()
    s = q @ k.mT / 4
    o = (1 + s + s * s / 2).tril() @ v
    kv_a1 = v.mT @ k / 2
    kv_a2 = torch.einsum("bhni,bhnj,bhnf->bhijf", k, k, v).flatten(2, 3) / 32**0.5
    return tuple(result.bfloat16() for result in (o, v.sum(2, keepdim=True), kv_a1, kv_a2))
