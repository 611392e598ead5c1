"""ThunderKittens' attention for H100.

The parameter is called ``is_causal``, as in PyTorch, because the source already has a constant ``causal``.
"""

import tkjit
from tkjit import CExpr, In, InOut, Out, Tensor


def saved(arguments):
    """Return results of the forward pass and of the first backward step, which the second backward step needs."""
    q, k, v, og = (arguments[name] for name in ("q", "k", "v", "og"))
    o, logsumexp = tk_mha_forward.reference(q, k, v, arguments["is_causal"])
    return {"l": logsumexp, "d": tk_mha_backward_prep.reference(og, o)}


FORWARD = {
    "source": "<thunderkittens>/kernels/attention/mha_h100/mha_h100.cu",
    "struct": "fwd_globals<D>",
    "fields": "q k v l o N hr",
    "computed": {"N": "N", "hr": "H // G"},
    "grid": "N // 192, H, B",
    "block": CExpr("32 * NUM_WORKERS"),
    "shared_memory": CExpr("MAX_SHARED_MEMORY - 1024"),
    "constraints": ["N % 384 == 0", "H % G == 0"],
    "examples": [{"B": 2, "H": 4, "G": 2, "N": 768}, {"B": 1, "H": 1, "G": 1, "N": 384}],
}


@tkjit.kernel(
    entry="fwd_attend_ker<D, is_causal>",
    variants={"D": (64, 128), "is_causal": (False, True)},
    **FORWARD,
)
def tk_mha_forward(
    q: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    k: In[Tensor, "bfloat16", "B", "G", "N", "D"],
    v: In[Tensor, "bfloat16", "B", "G", "N", "D"],
    is_causal: bool = False,
    *,
    o: Out[Tensor, "bfloat16", "B", "H", "N", "D"],
    l: Out[Tensor, "float32", "B", "H", 1, "N"],  # noqa: E741
) -> tuple[Tensor, Tensor]:
    """Computes softmax(q @ k.T / sqrt(D)) @ v for every head. With is_causal, no query sees a later key.

    H heads of queries share G heads of keys and values. The second result is for the backward pass: the logarithm of
    each row's sum of exponentials, times -sqrt(D).
    """
    import torch

    k, v = (x.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q.float() @ k.mT * q.shape[-1] ** -0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    logsumexp = scores.logsumexp(-1)
    return (torch.exp(scores - logsumexp[..., None]) @ v).to(q.dtype), -(q.shape[-1] ** 0.5) * logsumexp[:, :, None]


@tkjit.kernel(
    "<thunderkittens>/kernels/attention/mha_h100/mha_h100.cu",
    entry="bwd_attend_prep_ker<D>",
    struct="bwd_prep_globals<D>",
    grid="N // 256, H, B",
    block=128,
    shared_memory=CExpr("4 * (2 * sizeof(st_bf<64, D>) + sizeof(col_vec<st_fl<64, D>>)) + 4096"),
    variants={"D": (64, 128)},
    constraints="N % 256 == 0",
    examples=[{"B": 2, "H": 4, "N": 768}, {"B": 1, "H": 1, "N": 256}],
)
def tk_mha_backward_prep(
    og: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    o: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    d: Out[Tensor, "float32", "B", "H", 1, "N"],
) -> Tensor:
    """Sums the products of the result o and its gradient og over each row."""
    return (og.float() * o.float()).sum(-1)[:, :, None]


BACKWARD = {
    "source": "<thunderkittens>/kernels/attention/mha_h100/mha_h100.cu",
    "struct": "bwd_globals<D>",
    "fields": "q k v og qg kg vg l d N hr",
    "computed": {"N": "N", "hr": "H // G"},
    "grid": "N // 128, H, B",
    "block": CExpr("kittens::WARP_THREADS * BWD_NUM_WORKERS"),
    "shared_memory": CExpr("D == 64 ? 117760 : 183296"),
    "constraints": ["N % 128 == 0", "H % G == 0"],
    "examples": [{"B": 2, "H": 4, "G": 2, "N": 768}, {"B": 1, "H": 1, "G": 1, "N": 128}],
}


@tkjit.kernel(
    entry="bwd_attend_ker<D, is_causal>",
    variants={"D": (64, 128), "is_causal": (False, True)},
    zeroed="qg kg vg",
    prepare=saved,
    tolerance=0.02,
    **BACKWARD,
)
def tk_mha_backward(
    q: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    k: In[Tensor, "bfloat16", "B", "G", "N", "D"],
    v: In[Tensor, "bfloat16", "B", "G", "N", "D"],
    og: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    l: In[Tensor, "float32", "B", "H", 1, "N"],  # noqa: E741
    d: In[Tensor, "float32", "B", "H", 1, "N"],
    qg: InOut[Tensor, "float32", "B", "H", "N", "D"],
    kg: InOut[Tensor, "float32", "B", "G", "N", "D"],
    vg: InOut[Tensor, "float32", "B", "G", "N", "D"],
    is_causal: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Adds the gradients of q, k and v to qg, kg and vg, which must be zeros.

    Parameters
    ----------
    og : the gradient of the result
    l : from the forward pass
    d : from tk_mha_backward_prep
    is_causal : as in the forward pass
    """
    import torch

    of_kv, scale = [k.shape[0], k.shape[1], -1, *k.shape[2:]], q.shape[-1] ** -0.5
    keys, values = (x.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    p = torch.exp(scale * (q.float() @ keys.mT + l.mT))
    p = p.tril() if is_causal else p
    ds = scale * p * (og.float() @ values.mT - d.mT)
    kg += (ds.mT @ q.float()).reshape(of_kv).sum(2)
    vg += (p.mT @ og.float()).reshape(of_kv).sum(2)
    return qg.add_(ds @ keys), kg, vg


@tkjit.kernel(
    "<thunderkittens>/kernels/attention/mha_h100_lcf/mha_h100_lcf.cu",
    entry="prototype::lcf::kernel<attn_fwd_template<D>>",
    struct="attn_fwd_template<D>::layout::globals",
    fields="O Q K V",
    grid=132,
    block=CExpr("prototype::detail::NUM_THREADS_v<attn_fwd_template<D>>"),
    shared_memory=CExpr("kittens::MAX_SHARED_MEMORY - 2000"),
    variants={"D": (64, 128)},
    # tiles of keys have 192 rows if D is 64, and 128 rows if D is 128
    constraints="N % (256 - D) == 0",
    examples={"B": 2, "H": 4, "N": 384},
)
def tk_mha_lcf(
    Q: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    K: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    V: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    O: Out[Tensor, "bfloat16", "B", "H", "N", "D"],  # noqa: E741
) -> Tensor:
    """Computes softmax(Q @ K.T / sqrt(D)) @ V for every head."""
    return ((Q.float() @ K.float().mT * Q.shape[-1] ** -0.5).softmax(-1) @ V.float()).to(Q.dtype)
