"""Attention of new tokens to a paged cache of keys and values."""

import tkjit
from tkjit import Align, CExpr, In, Out, Scratch, Tensor, Zero


def with_a_full_cache(arguments):
    table, (pages, page_size) = arguments["page_table"], arguments["k_pages"].shape[:2]
    capacity = table.shape[1] * page_size
    return {
        "page_table": (table.flatten().argsort().view_as(table) % pages).int(),  # no page twice, if there are enough
        "lengths": capacity - arguments["lengths"] % min(max(1, capacity), 100),
    }


def flash_attention_3(q, k_pages, v_pages, page_table, lengths, window, softcap, scale):
    from flash_attn_interface import flash_attn_with_kvcache

    limits = (window - 1, 0) if window > 0 else (-1, -1)
    options = {"softmax_scale": scale, "window_size": limits, "softcap": softcap}
    q = q[:, None]
    return flash_attn_with_kvcache(q, k_pages, v_pages, cache_seqlens=lengths, page_table=page_table, **options)


@tkjit.kernel(
    "paged_attention.cu",
    entry="paged_attention<T, D>",
    grid="SPLITS, G * cdiv(H // max(1, G), 16), B",
    block=128,
    shared_memory=CExpr("sizeof(Shared<T, D>)"),
    # few sequences with many keys: several blocks share a sequence, up to three for each multiprocessor of an H100
    dims={
        "BLOCKS": "max(1, B * G * cdiv(H // max(1, G), 16))",
        "SPLITS": "max(1, min(cdiv(N * page_size, 256), 396 // BLOCKS))",
        "PARTS": "(SPLITS > 1) * B * H * SPLITS",
        "COUNTS": "(SPLITS > 1) * BLOCKS",
    },
    computed={"splits": "SPLITS"},
    variants={"T": ("bfloat16", "float16"), "D": (64, 128, 256)},
    constraints=["G >= 1", "H % max(1, G) == 0", "page_size >= 1"],
    examples=[
        {"B": 3, "H": 4, "G": 2, "D": 64, "P": 20, "page_size": 16, "N": 6},
        {"B": 1, "H": 20, "G": 1, "D": 128, "P": 40, "page_size": 16, "N": 40, "window": 300, "softcap": 3.0},
        {"B": 2, "H": 2, "G": 2, "D": 256, "P": 9, "page_size": 7, "N": 3},
    ],
    sizes=[
        {"B": 64, "H": 32, "G": 8, "D": 128, "P": 16384, "page_size": 16, "N": 256},
        {"B": 1, "H": 32, "G": 8, "D": 128, "P": 8192, "page_size": 16, "N": 8192},
        {"B": 16, "H": 64, "G": 8, "D": 128, "P": 8192, "page_size": 16, "N": 512},
        {"B": 16, "H": 32, "G": 32, "D": 128, "P": 2048, "page_size": 16, "N": 128},
    ],
    peers={"FlashAttention-3": flash_attention_3},
    prepare=with_a_full_cache,
)
def paged_attention(
    q: In[Tensor, "T", "B", "H", "D", Align(16)],
    k_pages: In[Tensor, "T", "P", "page_size", "G", "D", Align(16)],
    v_pages: In[Tensor, "T", "P", "page_size", "G", "D", Align(16)],
    page_table: In[Tensor, "int32", "B", "N"],
    lengths: In[Tensor, "int32", "B"],
    window: int = 0,
    softcap: float = 0.0,
    scale: float | None = None,
    *,
    parts: Scratch[Tensor, "float32", "PARTS", "D"],
    part_lse: Scratch[Tensor, "float32", "PARTS"],
    finished: Scratch[Tensor, "int32", "COUNTS", Zero],
    o: Out[Tensor, "T", "B", "H", "D", Align(16)],
    lse: Out[Tensor, "float32", "B", "H"],
) -> tuple[Tensor, Tensor]:
    """Computes softmax(q @ k.T * scale) @ v for each head of one new token per sequence.

    Parameters
    ----------
    q : (B, H, D) bfloat16 or float16, with D = 64, 128 or 256
    k_pages, v_pages : (P, page_size, G, D) of q's dtype
        Each head of the keys and values serves H / G heads of q.
    page_table : (B, N) int32
        The pages of each sequence, in order.
    lengths : (B,) int32
        The number of keys of each sequence, the new token's included. Pages past it are not read.
    window : int
        If above 0, only this many keys at the end of each sequence are seen.
    softcap : float
        If above 0, each scaled score s becomes softcap * tanh(s / softcap).
    scale : float, optional
        Above 0. By default, 1 / sqrt(D).

    Returns
    -------
    o : (B, H, D) of q's dtype
        0 for a sequence of no keys. NaN if a page that is needed is not in 0 ... P - 1, or if the length is above
        N * page_size.
    lse : (B, H) float32
        The logarithm of the sum of the exponentials of the scores; -inf for a sequence of no keys.

    Notes
    -----
    Several blocks share the keys of a long sequence. With D = 256, a block needs 144 KiB of shared memory, which GPUs
    of compute capability 8.6, 8.9 and 12.0 do not have. Sources: Kwon et al., "Efficient Memory Management for Large
    Language Model Serving with PagedAttention", 2023; Dao et al., "Flash-Decoding for long-context inference", 2023.
    """
    import torch

    o, lse = torch.zeros_like(q), q.new_full(q.shape[:2], -torch.inf, dtype=torch.float32)
    for i, length in enumerate(lengths.tolist()):
        first = max(0, length - window) if window > 0 else 0
        k, v = (
            pages[page_table[i].long()]
            .flatten(0, 1)[first:length]
            .float()
            .repeat_interleave(q.shape[1] // pages.shape[2], 1)
            for pages in (k_pages, v_pages)
        )
        if len(k) == 0:
            continue
        scores = torch.einsum("hd,khd->hk", q[i].float(), k) * (q.shape[2] ** -0.5 if scale is None else scale)
        if softcap > 0:
            scores = softcap * torch.tanh(scores / softcap)
        o[i] = torch.einsum("hk,khd->hd", scores.softmax(-1), v).to(q.dtype)
        lse[i] = scores.logsumexp(-1)
    return o, lse
