"""ThunderKittens' attention for H100, causal, backward."""

import tkjit
from tkjit import CExpr, In, InOut, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/attention/mha_h100/mha_h100.cu",
    entry="bwd_attend_ker<D, true>",
    struct="bwd_globals<D>",
    fields="q k v og qg kg vg l d N hr",
    computed={"N": "N", "hr": "H // G"},
    grid="N // 128, H, B",
    block=CExpr("kittens::WARP_THREADS * BWD_NUM_WORKERS"),
    shared_memory=CExpr("D == 64 ? 117760 : 183296"),
    variants={"D": (64, 128)},
    constraints=["N % 128 == 0", "H % G == 0"],
)
def tk_mha_backward_causal(
    q: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    k: In[Tensor, "bfloat16", "B", "G", "N", "D"],
    v: In[Tensor, "bfloat16", "B", "G", "N", "D"],
    og: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    l: In[Tensor, "float32", "B", "H", 1, "N"],  # noqa: E741
    d: In[Tensor, "float32", "B", "H", 1, "N"],
    qg: InOut[Tensor, "float32", "B", "H", "N", "D"],
    kg: InOut[Tensor, "float32", "B", "G", "N", "D"],
    vg: InOut[Tensor, "float32", "B", "G", "N", "D"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Add the gradients of q, k and v to qg, kg and vg, which are zeros before.

    Parameters
    ----------
    og : the gradient of the result
    l : of the forward pass
    d : of tk_mha_backward_prep
    """
    import torch

    of_kv, scale = [k.shape[0], k.shape[1], -1, *k.shape[2:]], q.shape[-1] ** -0.5
    keys, values = (x.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    p = torch.exp(scale * (q.float() @ keys.mT + l.mT))
    p = p.tril()
    ds = scale * p * (og.float() @ values.mT - d.mT)
    kg += (ds.mT @ q.float()).reshape(of_kv).sum(2)
    vg += (p.mT @ og.float()).reshape(of_kv).sum(2)
    return qg.add_(ds @ keys), kg, vg
