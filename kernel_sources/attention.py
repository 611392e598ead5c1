"""Scaled dot-product attention."""

import tkjit
from tkjit import Align, CExpr, In, Out, Tensor

VARIANTS = {"T": ("bfloat16", "float16"), "D": (64, 128, 256)}
CONSTRAINTS = ["G >= 1", "H % max(G, 1) == 0"]
EXAMPLES = [
    {"B": 2, "H": 4, "G": 2, "S": 70, "L": 150, "D": 64, "causal": False},
    {"B": 1, "H": 2, "G": 2, "S": 150, "L": 300, "D": 128, "causal": True},
    {"B": 1, "H": 2, "G": 1, "S": 20, "L": 90, "D": 256, "causal": True},
]
SIZES = [
    {"B": 4, "H": 16, "G": 16, "S": 4608, "L": 4608, "D": 128},
    {"B": 2, "H": 16, "G": 16, "S": 9216, "L": 9216, "D": 128},
    {"B": 4, "H": 32, "G": 32, "S": 4608, "L": 4608, "D": 64},
    {"B": 4, "H": 32, "G": 8, "S": 4608, "L": 4608, "D": 128},
]


def sdpa(q, k, v, causal, window, softcap, scale):
    import torch

    if window > 0 or softcap > 0 or (causal and q.shape[2] != k.shape[2]):
        return None
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )


def flash_attention(function, q, k, v, causal, window, softcap, scale):
    limits = (window - 1, 0) if window > 0 else (-1, -1)
    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    return function(q, k, v, softmax_scale=scale, causal=causal, window_size=limits, softcap=softcap)


def flash_attention_2(q, k, v, causal, window, softcap, scale):
    from flash_attn import flash_attn_func

    return flash_attention(flash_attn_func, q, k, v, causal, window, softcap, scale)


def flash_attention_3(q, k, v, causal, window, softcap, scale):
    from flash_attn_interface import flash_attn_func

    return flash_attention(flash_attn_func, q, k, v, causal, window, softcap, scale)


def gradients(grad_o, grad_lse, q, k, v, o, lse, causal, window, softcap, scale):
    inner = (grad_o.float() * o.float()).sum(-1) - grad_lse
    return attention_gradient(grad_o, inner, q, k, v, lse, causal, window, softcap, scale)


def with_results_of_attention(arguments):
    call = {name: arguments[name] for name in ("q", "k", "v", "causal", "window", "softcap", "scale")}
    o, lse = attention(**call)
    return {"inner": (arguments["grad_o"].float() * o.float()).sum(-1) - arguments["inner"], "lse": lse}


@tkjit.kernel(
    "attention.cu",
    archs={"90a": "attention_90a.cu"},
    entry="attention<T, D>",
    struct="Problem<T, D>",
    grid=CExpr("dim3((S + Launch<T, D>::queries - 1) / Launch<T, D>::queries, H, B)"),
    block=CExpr("Launch<T, D>::threads"),
    shared_memory=CExpr("Launch<T, D>::shared_bytes"),
    variants=VARIANTS,
    constraints=CONSTRAINTS,
    backward=gradients,
    flops="4 * B * H * S * L * D",
    examples=EXAMPLES,
    sizes=SIZES,
    peers={"SDPA": sdpa, "FlashAttention-3": flash_attention_3, "FlashAttention-2": flash_attention_2},
)
def attention(
    q: In[Tensor, "T", "B", "H", "S", "D", Align(16)],
    k: In[Tensor, "T", "B", "G", "L", "D", Align(16)],
    v: In[Tensor, "T", "B", "G", "L", "D", Align(16)],
    causal: bool = False,
    window: int = 0,
    softcap: float = 0.0,
    scale: float | None = None,
    *,
    o: Out[Tensor, "T", "B", "H", "S", "D", Align(16)],
    lse: Out[Tensor, "float32", "B", "H", "S"],
) -> tuple[Tensor, Tensor]:
    """Computes softmax(q @ k.T * scale) @ v for each head.

    Parameters
    ----------
    q : (B, H, S, D) bfloat16 or float16, with D = 64, 128 or 256
    k, v : (B, G, L, D) of q's dtype
        Each head of k and v serves H / G heads of q.
    causal : bool
        Whether query i sees only the keys up to i + L - S. The last query then sees all keys.
    window : int
        If above 0, the number of keys up to its own that a query sees. Implies `causal`.
    softcap : float
        If above 0, each scaled score s becomes softcap * tanh(s / softcap).
    scale : float, optional
        Above 0. By default, 1 / sqrt(D).

    Returns
    -------
    o : (B, H, S, D) of q's dtype
        0 for a query that sees no key.
    lse : (B, H, S) float32
        The logarithm of the sum of the exponentials of a query's scores; -inf if it sees no key.

    Notes
    -----
    ``attention_gradient`` computes the gradient. Sources: Dao, "FlashAttention-2", 2023; Shah et al.,
    "FlashAttention-3", 2024.
    """
    import torch

    queries, keys = torch.arange(q.shape[2], device=q.device)[:, None], torch.arange(k.shape[2], device=q.device)
    last = queries + k.shape[2] - q.shape[2]
    seen = keys >= 0 if not causal and window <= 0 else keys <= last
    if window > 0:
        seen = seen & (keys > last - window)
    k, v = (one.float().repeat_interleave(q.shape[1] // one.shape[1], 1) for one in (k, v))
    scores = q.float() @ k.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~seen, -torch.inf)
    shares = torch.where(seen.any(-1, keepdim=True), scores.softmax(-1), 0)
    return (shares @ v).to(q.dtype), scores.logsumexp(-1)


@tkjit.kernel(
    "attention_gradient.cu",
    entry="attention_gradient<T, D>",
    grid=CExpr("Launch<T, D>::blocks(B, H, G, S, L)"),
    block=128,
    shared_memory=CExpr("sizeof(Shared<T, D>)"),
    variants=VARIANTS,
    constraints=CONSTRAINTS,
    flops="10 * B * H * S * L * D",
    examples=EXAMPLES,
    sizes=SIZES,
    prepare=with_results_of_attention,
)
def attention_gradient(
    grad_o: In[Tensor, "T", "B", "H", "S", "D", Align(16)],
    inner: In[Tensor, "float32", "B", "H", "S"],
    q: In[Tensor, "T", "B", "H", "S", "D", Align(16)],
    k: In[Tensor, "T", "B", "G", "L", "D", Align(16)],
    v: In[Tensor, "T", "B", "G", "L", "D", Align(16)],
    lse: In[Tensor, "float32", "B", "H", "S"],
    causal: bool = False,
    window: int = 0,
    softcap: float = 0.0,
    scale: float | None = None,
    *,
    grad_q: Out[Tensor, "T", "B", "H", "S", "D", Align(16)],
    grad_k: Out[Tensor, "T", "B", "G", "L", "D", Align(16)],
    grad_v: Out[Tensor, "T", "B", "G", "L", "D", Align(16)],
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients of ``attention``.

    Parameters
    ----------
    grad_o : (B, H, S, D) of q's dtype
    inner : (B, H, S) float32
        ``(grad_o * o).sum(-1) - grad_lse``
    q, k, v, causal, window, softcap, scale
        The arguments of the call.
    lse : (B, H, S) float32
        The result of the call. A query whose lse is -inf has no part in the gradients.

    Returns
    -------
    grad_q : (B, H, S, D) of q's dtype
    grad_k, grad_v : (B, G, L, D) of q's dtype

    Notes
    -----
    The same call returns the same bits, because all sums have a fixed order. Source: Dao, "FlashAttention-2", 2023.
    """
    import torch

    scale = q.shape[3] ** -0.5 if scale is None else scale
    grouped = (k.shape[0], k.shape[1], -1, *q.shape[2:])  # the heads of q that share a head of k
    wide_k, wide_v = k.float()[:, :, None], v.float()[:, :, None]
    grad_q, grad_k, grad_v = torch.empty_like(q), torch.zeros_like(wide_k), torch.zeros_like(wide_v)
    keys = torch.arange(k.shape[2], device=q.device)
    for first in range(0, q.shape[2], 256):  # all scores at once could be too large
        rows = slice(first, first + 256)
        q_rows, grad_rows = (one.float().view(grouped)[:, :, :, rows] for one in (q, grad_o))
        lse_rows, inner_rows = (one.view(grouped[:4])[:, :, :, rows, None] for one in (lse, inner))
        scores = q_rows @ wide_k.mT * scale
        if softcap > 0:
            capped = torch.tanh(scores / softcap)
            scores = softcap * capped
        last = torch.arange(q.shape[2], device=q.device)[rows, None] + k.shape[2] - q.shape[2]
        seen = keys >= 0 if not causal and window <= 0 else keys <= last
        if window > 0:
            seen = seen & (keys > last - window)
        shares = torch.where(seen, (scores - lse_rows).exp(), 0)
        grad_scores = shares * (grad_rows @ wide_v.mT - inner_rows) * scale
        if softcap > 0:
            grad_scores *= 1 - capped.square()
        grad_q.view(grouped)[:, :, :, rows] = (grad_scores @ wide_k).to(q.dtype)
        grad_k += (grad_scores.mT @ q_rows).sum(2, keepdim=True)
        grad_v += (shares.mT @ grad_rows).sum(2, keepdim=True)
    return grad_q, grad_k[:, :, 0].to(k.dtype), grad_v[:, :, 0].to(v.dtype)
