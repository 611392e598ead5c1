"""ThunderKittens' Hedgehog: attention in a sliding window, and linear attention with learned features before it."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


def maps(arguments):
    """Return maps whose features are of about unit size, and positive weights."""
    scaled = {name: arguments[name] / 8 for name in ("qmap", "kmap")}
    return {**scaled, "alphas": 3 * arguments["alphas"].sigmoid(), "betas": arguments["betas"].sigmoid()}


@tkjit.kernel(
    "<thunderkittens>/kernels/hedgehog/hedgehog.cu",
    entry="hedgehog_linear_attention_smd",
    struct="hedgehog_globals",
    fields="q k v qmap kmap k_state kv_state o alphas betas length",
    computed={"length": "N"},
    trailing="length",
    grid="H, B",
    block=CExpr("NUM_THREADS"),
    shared_memory=CExpr("kittens::MAX_SHARED_MEMORY - 1024"),
    constraints="N % 64 == 0",
    prepare=maps,
    tolerance=0.02,
    examples=[{"B": 2, "H": 4, "N": 384}, {"B": 1, "H": 1, "N": 64}],
)
def tk_hedgehog(
    q: In[Tensor, "bfloat16", "B", "H", "N", 128],
    k: In[Tensor, "bfloat16", "B", "H", "N", 128],
    v: In[Tensor, "bfloat16", "B", "H", "N", 128],
    qmap: In[Tensor, "bfloat16", "H", 128, 64],
    kmap: In[Tensor, "bfloat16", "H", 128, 64],
    alphas: In[Tensor, "float32", "H"],
    betas: In[Tensor, "float32", "H"],
    o: Out[Tensor, "bfloat16", "B", "H", "N", 128],
    kv_state: Out[Tensor, "float32", "B", "H", 128, 128],
    k_state: Out[Tensor, "float32", "B", "H", 1, 128],
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes attention with exponential weights near the diagonal, and products of features elsewhere.

    Rows are grouped in chunks of 64. A row's window is its own chunk up to the row itself, and the previous chunk. The
    rows of the window have the weights ``beta * exp(q @ k / sqrt(128))``, where each row's largest exponent is
    subtracted from its exponents. Earlier rows have the weights ``alpha * f(q) @ f(k)``. ``f(x)`` is the concatenation
    of softmax(x @ map) and softmax(-x @ map). A row's weights are divided by their sum. The states are the sums of f(k)
    times v, and of f(k), over all chunks except the last.

    Parameters
    ----------
    alphas : (H,) float32, the weight of the linear attention
    betas : (H,) float32, the weight of the window
    """
    import torch

    def features(x, of):
        y = x.float() @ of.float()
        return torch.cat((y.softmax(-1), (-y).softmax(-1)), -1)

    fq, fk = features(q, qmap), features(k, kmap)
    chunk = torch.arange(q.shape[2], device=q.device) // 64
    is_near = chunk[:, None] - chunk <= 1
    scores = (q.float() @ k.float().mT * 128**-0.5).masked_fill(~is_near.tril(), float("-inf"))
    window = betas[:, None, None] * torch.exp(scores - scores.amax(-1, keepdim=True))
    weights = window + alphas[:, None, None] * (fq @ fk.mT) * (~is_near).tril()
    o = (weights / weights.sum(-1, keepdim=True)) @ v.float()
    fk, seen = fk[:, :, :-64], v.float()[:, :, :-64]
    return o.to(q.dtype), fk.mT @ seen, fk.sum(2, keepdim=True)
