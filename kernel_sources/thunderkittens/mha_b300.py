"""ThunderKittens' attention for B300, with heads of 192 for queries and keys, and of 128 for values."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel(
    archs={"103a": "<thunderkittens>/kernels/attention/bf16_b300_mha_noncausal/bf16_b300_mha_noncausal.cu"},
    entry="kernel<config<128, 128, 192, 128>>",
    struct="globals<config<128, 128, 192, 128>>",
    constraints=["Nq % 512 == 0", "Nk % 128 == 0"],
)
def tk_mha_b300(
    q: In[Tensor, "bfloat16", "B", "Nq", "H", 192],
    k: In[Tensor, "bfloat16", "B", "Nk", "H", 192],
    v: In[Tensor, "bfloat16", "B", "Nk", "H", 128],
    o: Out[Tensor, "bfloat16", "B", "Nq", "H", 128],
    lse: Out[Tensor, "float32", "B", "H", 1, "Nq"],
) -> tuple[Tensor, Tensor]:
    """Computes attention, and the logarithm of each row's sum of exponentials."""
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    scores = q @ k.mT / 192**0.5
    return (scores.softmax(-1) @ v).transpose(1, 2).bfloat16(), scores.logsumexp(-1)[:, :, None]


@tkjit.kernel(
    archs={"103a": "<thunderkittens>/kernels/attention/bf16_b300_mha_causal/bf16_b300_mha_causal.cu"},
    entry="kernel<config<128, 128, 192, 128, false>>",
    struct="globals<config<128, 128, 192, 128, false>>",
    constraints="N % 512 == 0",
)
def tk_mha_b300_causal(
    q: In[Tensor, "bfloat16", "B", "N", "H", 192],
    k: In[Tensor, "bfloat16", "B", "N", "H", 192],
    v: In[Tensor, "bfloat16", "B", "N", "H", 128],
    o: Out[Tensor, "bfloat16", "B", "N", "H", 128],
    lse: Out[Tensor, "float32", "B", "H", 1, "N"],
) -> tuple[Tensor, Tensor]:
    """Computes causal attention, and the logarithm of each row's sum of exponentials."""
    import torch

    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.mT / 192**0.5).masked_fill(later, -torch.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).bfloat16(), scores.logsumexp(-1)[:, :, None]
