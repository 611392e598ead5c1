"""ThunderKittens' attention for H100, forward."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/attention/mha_h100/mha_h100.cu",
    entry="fwd_attend_ker<D, false>",
    struct="fwd_globals<D>",
    fields="q k v l o N hr",
    computed={"N": "N", "hr": "H // G"},
    grid="N // 192, H, B",
    block=CExpr("32 * NUM_WORKERS"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 1024"),
    variants={"D": (64, 128)},
    constraints=["N % 384 == 0", "H % G == 0"],
)
def tk_mha_forward(
    q: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    k: In[Tensor, "bfloat16", "B", "G", "N", "D"],
    v: In[Tensor, "bfloat16", "B", "G", "N", "D"],
    o: Out[Tensor, "bfloat16", "B", "H", "N", "D"],
    l: Out[Tensor, "float32", "B", "H", 1, "N"],  # noqa: E741
) -> tuple[Tensor, Tensor]:
    """Softmax(q @ k.T / sqrt(D)) @ v, of every head.

    H heads of queries share G heads of keys and values. The second result is for the backward pass: the logarithm of
    each row's sum of exponentials, times -sqrt(D).
    """
    import torch

    k, v = (x.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q.float() @ k.mT * q.shape[-1] ** -0.5
    logsumexp = scores.logsumexp(-1)
    return (torch.exp(scores - logsumexp[..., None]) @ v).to(q.dtype), -(q.shape[-1] ** 0.5) * logsumexp[:, :, None]
