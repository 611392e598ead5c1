"""Scaled dot-product attention, of dense tensors and of packed sequences."""

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
DENSE_CONSTRAINTS = ["G >= 1", "H % max(G, 1) == 0", "B <= 65535", "H <= 65535"]  # a grid has no more rows
PACKED_CONSTRAINTS = ["G >= 1", "H % max(G, 1) == 0", "P >= 1"]
PACKED_EXAMPLES = [
    {"H": 2, "G": 1, "S": 100, "L": 150, "P": 12, "D": 64, "causal": False},
    {"H": 2, "G": 2, "S": 250, "L": 250, "P": 3, "D": 128, "causal": True},
    {"H": 2, "G": 1, "S": 40, "L": 150, "P": 4, "D": 256, "causal": True},
]
PACKED_SIZES = [
    {"H": 16, "G": 16, "S": 16384, "L": 16384, "P": 9, "D": 128},
    {"H": 32, "G": 8, "S": 32768, "L": 32768, "P": 33, "D": 128},
    {"H": 32, "G": 32, "S": 32768, "L": 32768, "P": 129, "D": 64},
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


def ends_of_sequences(rows, sequences):
    """Returns cu_seqlens of sequences that become longer and longer. The last row belongs to none."""
    return [max(0, rows - 1) * i * i // max(1, sequences * sequences) for i in range(sequences + 1)]


def with_sequences(arguments):
    import torch

    sequences = len(arguments["cu_seqlens_q"]) - 1
    ends = {f"cu_seqlens_{name}": ends_of_sequences(arguments[name].shape[0], sequences) for name in ("q", "k")}
    return {name: torch.tensor(one, dtype=torch.int32) for name, one in ends.items()}


def longest(rows, cu_seqlens):
    """Returns the length of the longest of `with_sequences`, without waiting for the device."""
    ends = ends_of_sequences(rows.shape[0], len(cu_seqlens) - 1)
    return ends[-1] - ends[-2]


def torch_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, causal, window, softcap, scale):
    from torch.nn.attention.varlen import varlen_attn

    if softcap > 0:
        return None
    limits = (window - 1, 0) if window > 0 else (-1, 0) if causal else (-1, -1)
    most = longest(q, cu_seqlens_q), longest(k, cu_seqlens_k)
    options = {"scale": scale, "window_size": limits, "enable_gqa": q.shape[1] != k.shape[1]}
    return varlen_attn(q, k, v, cu_seqlens_q, cu_seqlens_k, *most, **options)


def packed_flash_attention(function, q, k, v, cu_seqlens_q, cu_seqlens_k, causal, window, softcap, scale):
    options = {
        "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_k": cu_seqlens_k,
        "max_seqlen_q": longest(q, cu_seqlens_q),
        "max_seqlen_k": longest(k, cu_seqlens_k),
        "softmax_scale": scale,
        "causal": causal,
        "window_size": (window - 1, 0) if window > 0 else (-1, -1),
        "softcap": softcap,
    }
    return function(q, k, v, **options)


def packed_flash_attention_2(q, k, v, cu_seqlens_q, cu_seqlens_k, causal, window, softcap, scale):
    from flash_attn import flash_attn_varlen_func as function

    return packed_flash_attention(function, q, k, v, cu_seqlens_q, cu_seqlens_k, causal, window, softcap, scale)


def packed_flash_attention_3(q, k, v, cu_seqlens_q, cu_seqlens_k, causal, window, softcap, scale):
    from flash_attn_interface import flash_attn_varlen_func as function

    return packed_flash_attention(function, q, k, v, cu_seqlens_q, cu_seqlens_k, causal, window, softcap, scale)


def gradients(grad_o, grad_lse, q, k, v, o, lse, causal, window, softcap, scale):
    inner = (grad_o.float() * o.float()).sum(-1) - grad_lse
    return attention_gradient(grad_o, inner, q, k, v, lse, causal, window, softcap, scale)


def packed_gradients(grad_o, grad_lse, q, k, v, cu_seqlens_q, cu_seqlens_k, o, lse, causal, window, softcap, scale):
    inner = (grad_o.float() * o.float()).sum(-1).T.contiguous() - grad_lse
    sequences = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    options = {"causal": causal, "window": window, "softcap": softcap, "scale": scale}
    return attention_gradient(grad_o, inner, q, k, v, lse=lse, **sequences, **options)


def with_results_of_attention(arguments):
    call = {name: arguments[name] for name in ("q", "k", "v", "causal", "window", "softcap", "scale")}
    o, lse = attention(**call)
    return {"inner": (arguments["grad_o"].float() * o.float()).sum(-1) - arguments["inner"], "lse": lse}


def with_results_of_packed_attention(arguments):
    made = with_sequences(arguments)
    call = {name: arguments[name] for name in ("q", "k", "v", "causal", "window", "softcap", "scale")}
    o, lse = attention(**call, **made)
    products = (arguments["grad_o"].float() * o.float()).sum(-1).T.contiguous()
    return made | {"inner": products - arguments["inner"], "lse": lse}


def sequences_of(cu_seqlens, rows):
    """Returns each sequence's rows as a slice."""
    ends = cu_seqlens.clamp(0, rows).tolist()
    return [slice(first, max(first, end)) for first, end in zip(ends, ends[1:], strict=False)]


def attend(q, k, v, causal, window, softcap, scale):
    """The reference of attention, for dense tensors."""
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


def differentiate(grad_o, inner, q, k, v, lse, causal, window, softcap, scale):
    """The reference of attention_gradient, for dense tensors."""
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


@tkjit.kernel(
    "attention.cu",
    archs={"90a": "attention_90a.cu"},
    entry="attention<T, D, false>",
    struct="Problem<T, D, false>",
    grid=CExpr("dim3((S + Launch<T, D>::queries - 1) / Launch<T, D>::queries, H, B)"),
    block=CExpr("Launch<T, D>::threads"),
    shared_memory=CExpr("Launch<T, D>::shared_bytes"),
    variants=VARIANTS,
    constraints=DENSE_CONSTRAINTS,
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
    return attend(q, k, v, causal, window, softcap, scale)


@attention.overload(
    "attention.cu",
    archs={"90a": "attention_90a.cu"},
    entry="attention<T, D, true>",
    struct="Problem<T, D, true>",
    grid=CExpr("packed_tiles(S, N, Launch<T, D>::queries) * H"),
    block=CExpr("Launch<T, D>::threads"),
    shared_memory=CExpr("Launch<T, D>::shared_bytes"),
    dims={"N": "P - 1"},
    variants=VARIANTS,
    constraints=PACKED_CONSTRAINTS,
    backward=packed_gradients,
    prepare=with_sequences,
    flops="4 * H * S * L * D * (4 * N * N - 1) // max(1, 3 * N * N * N)",  # of `with_sequences`
    examples=PACKED_EXAMPLES,
    sizes=PACKED_SIZES,
    peers={
        "varlen_attn": torch_varlen,
        "FlashAttention-3": packed_flash_attention_3,
        "FlashAttention-2": packed_flash_attention_2,
    },
)
def attention(
    q: In[Tensor, "T", "S", "H", "D", Align(16)],
    k: In[Tensor, "T", "L", "G", "D", Align(16)],
    v: In[Tensor, "T", "L", "G", "D", Align(16)],
    cu_seqlens_q: In[Tensor, "int32", "P"],
    cu_seqlens_k: In[Tensor, "int32", "P"],
    causal: bool = False,
    window: int = 0,
    softcap: float = 0.0,
    scale: float | None = None,
    *,
    o: Out[Tensor, "T", "S", "H", "D", Align(16)],
    lse: Out[Tensor, "float32", "H", "S"],
) -> tuple[Tensor, Tensor]:
    """Computes attention of packed sequences: the rows of all sequences follow each other.

    Parameters
    ----------
    q : (S, H, D) bfloat16 or float16, with D = 64, 128 or 256
    k, v : (L, G, D) of q's dtype
    cu_seqlens_q, cu_seqlens_k : (N + 1,) int32
        The queries of sequence i are the rows from ``cu_seqlens_q[i]`` to before ``cu_seqlens_q[i + 1]``, and likewise
        its keys. Sequences may be empty.
    causal, window, softcap, scale
        As for dense tensors. S and L are those of the sequence.

    Returns
    -------
    o : (S, H, D) of q's dtype
        0 for a query that sees no key, and for rows that belong to no sequence.
    lse : (H, S) float32
        -inf for such rows.

    Notes
    -----
    The arguments and results are those of FlashAttention's ``flash_attn_varlen_func``, without the maximal lengths. The
    host does not wait for the device: blocks find their sequences themselves. If cu_seqlens descends, the results are
    unspecified, but no memory outside of the tensors is read or written.
    """
    import torch

    o, lse = torch.zeros_like(q), q.new_full((q.shape[1], q.shape[0]), -torch.inf, dtype=torch.float32)
    parts = sequences_of(cu_seqlens_q, q.shape[0]), sequences_of(cu_seqlens_k, k.shape[0])
    for queries, keys in zip(*parts, strict=True):
        dense = (one.transpose(0, 1)[None] for one in (q[queries], k[keys], v[keys]))
        own_o, own_lse = attend(*dense, causal, window, softcap, scale)
        o[queries], lse[:, queries] = own_o[0].transpose(0, 1), own_lse[0]
    return o, lse


@tkjit.kernel(
    "attention_gradient.cu",
    archs={"90a": "attention_gradient_90a.cu"},
    entry="attention_gradient<T, D>",
    struct="Problem<T, D>",
    grid=CExpr("Launch<T, D>::blocks(B, H, G, S, L)"),
    block=CExpr("Launch<T, D>::threads"),
    shared_memory=CExpr("Launch<T, D>::shared_bytes"),
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
    The same call returns the same bits, because all sums have a fixed order. Sources: Dao, "FlashAttention-2", 2023;
    Shah et al., "FlashAttention-3", 2024.
    """
    return differentiate(grad_o, inner, q, k, v, lse, causal, window, softcap, scale)


@attention_gradient.overload(
    "attention_gradient.cu",
    entry="packed_attention_gradient<T, D, Globals>",
    grid=CExpr("Launch<T, D>::packed_blocks(N, H, G, S, L)"),
    block=CExpr("Launch<T, D>::threads"),
    shared_memory=CExpr("Launch<T, D>::shared_bytes"),
    dims={"N": "P - 1"},
    variants=VARIANTS,
    constraints=PACKED_CONSTRAINTS,
    flops="10 * H * S * L * D * (4 * N * N - 1) // max(1, 3 * N * N * N)",
    examples=PACKED_EXAMPLES,
    sizes=PACKED_SIZES,
    prepare=with_results_of_packed_attention,
)
def attention_gradient(
    grad_o: In[Tensor, "T", "S", "H", "D", Align(16)],
    inner: In[Tensor, "float32", "H", "S"],
    q: In[Tensor, "T", "S", "H", "D", Align(16)],
    k: In[Tensor, "T", "L", "G", "D", Align(16)],
    v: In[Tensor, "T", "L", "G", "D", Align(16)],
    cu_seqlens_q: In[Tensor, "int32", "P"],
    cu_seqlens_k: In[Tensor, "int32", "P"],
    lse: In[Tensor, "float32", "H", "S"],
    causal: bool = False,
    window: int = 0,
    softcap: float = 0.0,
    scale: float | None = None,
    *,
    grad_q: Out[Tensor, "T", "S", "H", "D", Align(16)],
    grad_k: Out[Tensor, "T", "L", "G", "D", Align(16)],
    grad_v: Out[Tensor, "T", "L", "G", "D", Align(16)],
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients of ``attention`` for packed sequences. Those of rows that belong to none are 0."""
    import torch

    grad_q, grad_k, grad_v = (torch.zeros_like(one) for one in (q, k, v))
    parts = sequences_of(cu_seqlens_q, q.shape[0]), sequences_of(cu_seqlens_k, k.shape[0])
    for queries, keys in zip(*parts, strict=True):
        own_grad_o, own_q, own_k, own_v = (
            one.transpose(0, 1)[None].contiguous() for one in (grad_o[queries], q[queries], k[keys], v[keys])
        )
        own_inner, own_lse = (one[None, :, queries].contiguous() for one in (inner, lse))
        tensors = own_grad_o, own_inner, own_q, own_k, own_v, own_lse
        grads = differentiate(*tensors, causal, window, softcap, scale)
        grad_q[queries], grad_k[keys], grad_v[keys] = (one[0].transpose(0, 1) for one in grads)
    return grad_q, grad_k, grad_v
