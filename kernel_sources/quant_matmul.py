"""Products with quantised weights."""

import tkjit
from tkjit import Align, In, Member, Out, Scratch, Tensor, Zero

DTYPES = ("bfloat16", "float16")
# With few tiles, several blocks share a tile, up to two blocks for each multiprocessor of an H100. Each of a block's
# eight warps has at least one group of 128 weights.
SPLITS = "max(1, min(K // 1024, 264 // max(1, TILES)))"
FOUR_BITS = {
    "M": "x.batch * x.depth * x.rows",
    "TILES": "cdiv(M, 16) * cdiv(N, 64)",
    "SPLITS": SPLITS,
    "SPLIT_SUMS": "(SPLITS > 1) * SPLITS * TILES * 1024",
    "SPLIT_TILES": "(SPLITS > 1) * TILES",
}
EIGHT_BITS = FOUR_BITS | {
    "TILES": "cdiv(M, 16) * cdiv(N, 32)",
    "SPLIT_SUMS": "(SPLITS > 1) * SPLITS * TILES * 512",
}
EXAMPLES = [{"...": (2, 3), "N": 70, "K": 256}, {"...": (1,), "N": 40, "K": 4096}, {"...": (20,), "N": 8, "K": 128}]
SIZES = [
    {"...": (1,), "N": 4096, "K": 14336},
    {"...": (16,), "N": 4096, "K": 14336},
    {"...": (1,), "N": 28672, "K": 4096},
    {"...": (16,), "N": 28672, "K": 4096},
]


@tkjit.kernel(
    "quant_matmul.cu",
    entry="quant_matmul<T>",
    struct="Problem<T>",
    grid="TILES * SPLITS",
    block=256,
    dims=FOUR_BITS,
    computed={"splits": "SPLITS"},
    fields="x weight scales zeros sums finished splits y",
    variants={"T": DTYPES},
    constraints="K % 128 == 0",
    examples=EXAMPLES,
    sizes=SIZES,
)
def quant_matmul(
    x: In[Tensor, "T", "... K", Align(16)],
    weight: In[Tensor, "uint8", "N", "K // 2", Align(16)],
    scales: In[Tensor, "T", "N", "K // 128"],
    zeros: In[Tensor, "uint8", "N", "K // 128"] | None = None,
    *,
    sums: Scratch[Tensor, "float32", "SPLIT_SUMS", Member("partial.sums")],
    finished: Scratch[Tensor, "int32", "SPLIT_TILES", Member("partial.finished"), Zero],
    y: Out[Tensor, "T", "... N"],
) -> Tensor:
    """Computes x @ w.T, where the weights w have 4 bits, or 8 bits as float8_e4m3fn.

    Each 128 adjacent weights of a row have a scale. A weight of 4 bits is (q - zero) * scale. With 8 bits,
    ``quant_matmul(x, weight, scales)`` takes a `weight` of (N, K) float8_e4m3fn, and a weight is q * scale.

    Parameters
    ----------
    x : (..., K) bfloat16 or float16, where K is a multiple of 128
    weight : (N, K / 2) uint8
        Two numbers q from 0 to 15 in each byte, the one with the lower index in the lower 4 bits.
    scales : (N, K / 128) of x's dtype
    zeros : (N, K / 128) uint8, optional
        From 0 to 15; by default 8.

    Returns
    -------
    y : (..., N) of x's dtype

    Notes
    -----
    The weights are read once for every 16 rows of x, so this kernel is for few rows, as in decoding. There are no
    gradients. Source of the conversion of 4 bits: Kim et al., "Who Says Elephants Can't Run", 2022.
    """
    import torch

    digits = torch.stack((weight & 15, weight >> 4), -1).flatten(-2).float()
    groups = digits.unflatten(-1, (-1, 128)) - (8 if zeros is None else zeros.float()[..., None])
    return (x.float() @ (groups * scales.float()[..., None]).flatten(-2).T).to(x.dtype)


@quant_matmul.overload(
    "quant_matmul_fp8.cu",
    entry="quant_matmul<T>",
    struct="Problem<T>",
    grid="TILES * SPLITS",
    block=256,
    dims=EIGHT_BITS,
    computed={"splits": "SPLITS"},
    fields="x weight scales sums finished splits y",
    variants={"T": DTYPES},
    constraints="K % 128 == 0",
    examples=EXAMPLES,
    sizes=SIZES,
)
def quant_matmul(
    x: In[Tensor, "T", "... K", Align(16)],
    weight: In[Tensor, "float8_e4m3fn", "N", "K", Align(16)],
    scales: In[Tensor, "T", "N", "K // 128"],
    *,
    sums: Scratch[Tensor, "float32", "SPLIT_SUMS", Member("partial.sums")],
    finished: Scratch[Tensor, "int32", "SPLIT_TILES", Member("partial.finished"), Zero],
    y: Out[Tensor, "T", "... N"],
) -> Tensor:
    """Computes x @ w.T for weights of 8 bits.

    Parameters
    ----------
    x : (..., K) bfloat16 or float16, where K is a multiple of 128
    weight : (N, K) float8_e4m3fn
        Without NaN.
    scales : (N, K / 128) of x's dtype
        Of each 128 adjacent weights of a row.

    Returns
    -------
    y : (..., N) of x's dtype
    """
    groups = weight.float().unflatten(-1, (-1, 128)) * scales.float()[..., None]
    return (x.float() @ groups.flatten(-2).T).to(x.dtype)
