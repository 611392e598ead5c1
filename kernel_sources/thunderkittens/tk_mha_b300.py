"""ThunderKittens' attention for B300, not causal: heads of 192 in queries and keys, of 128 in values."""

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
    """Attention, and the logarithm of each row's sum of exponentials."""
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    scores = q @ k.mT / 192**0.5
    return (scores.softmax(-1) @ v).transpose(1, 2).bfloat16(), scores.logsumexp(-1)[:, :, None]
