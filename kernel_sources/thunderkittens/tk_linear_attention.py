"""ThunderKittens' linear attention with a decay for each head, as in lightning attention."""

import tkjit
from tkjit import CExpr, In, InOut, Tensor


def decays(arguments):
    """Return small queries and keys, the keys a second time as ``k_split``, and slopes from 0 to 1."""
    k = arguments["k"] / 128**0.5
    slopes = arguments["slopes"].sigmoid()
    return {"q": arguments["q"] / 128**0.5, "k": k, "k_split": k, "slopes": slopes}


@tkjit.kernel(
    "<thunderkittens>/kernels/linear_attention/linear_attention.cu",
    entry="la_kernel",
    struct="la_globals",
    fields="q k k_split v o slopes length",
    computed={"length": "N"},
    trailing="length",
    grid="H, B",
    block=CExpr("NUM_THREADS"),
    shared_memory=CExpr("kittens::MAX_SHARED_MEMORY - 1024"),
    constraints="N % 64 == 0",
    zeroed="o",
    prepare=decays,
    tolerance=0.02,
    examples=[{"B": 2, "H": 4, "N": 384}, {"B": 1, "H": 1, "N": 64}],
)
def tk_linear_attention(
    q: In[Tensor, "bfloat16", "B", "H", "N", 128],
    k: In[Tensor, "bfloat16", "B", "H", "N", 128],
    k_split: In[Tensor, "bfloat16", "B", "H", "N", 128],
    v: In[Tensor, "bfloat16", "B", "H", "N", 128],
    slopes: In[Tensor, "float32", "H"],
    o: InOut[Tensor, "bfloat16", "B", "H", "N", 128],
) -> Tensor:
    """Adds causal ``(q @ k.T * exp(-slope * distance)) @ v``, without a softmax, to o, which must be zeros.

    Parameters
    ----------
    k_split : k again, because the source loads it in two widths
    slopes : (H,) float32, the decay of each head per row of distance
    """
    import torch

    row = torch.arange(q.shape[2], device=q.device)
    decay = torch.exp(-slopes[:, None, None] * (row[:, None] - row)).tril()
    return o.add_(((q.float() @ k.float().mT * decay) @ v.float()).to(o.dtype))
