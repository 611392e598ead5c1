"""Products of matrices of 8-bit floats with scales."""

import tkjit
from tkjit import CExpr, DType, In, Member, Out, Scratch, Tensor, Zero

# as in gemm.py
SPLIT = {
    "IS_WIDE": "(M > 64) * (cdiv(M, 128) * cdiv(N, 256) > 66)",
    "TILES": "max(1, cdiv(M, 64 + 64 * (M > 64)) * cdiv(N, 128 + 128 * IS_WIDE))",
    "SPLITS": "max(1, min(132 // TILES, K // 1024))",
    "SPLIT_SUMS": "(SPLITS > 1) * SPLITS * cdiv(M, 128) * cdiv(N, 256) * 32768",
    "SPLIT_TILES": "(SPLITS > 1) * cdiv(M, 64) * cdiv(N, 128)",
}
TYPES = ("float8_e4m3fn", "float8_e5m2")
COMMON = {
    "archs": {"90a": "scaled_matmul_90a.cu"},
    "grid": CExpr("Launch<T, U, out_dtype>::blocks(M, N, SPLITS)"),
    "block": CExpr("Launch<T, U, out_dtype>::threads"),
    "shared_memory": CExpr("Launch<T, U, out_dtype>::shared_bytes"),
    "dims": SPLIT,
    "computed": {"splits": "SPLITS"},
    "fields": "a b scale_a scale_b bias sums finished splits c",
    "variants": {"T": TYPES, "U": TYPES, "out_dtype": ("bfloat16", "float16", "float32")},
    "flops": "2 * M * N * K",
}
SIZES = [
    {"M": 4096, "N": 4096, "K": 4096},
    {"M": 8192, "N": 8192, "K": 8192},
    {"M": 128, "N": 4096, "K": 14336},
    {"M": 16, "N": 4096, "K": 14336},
]


def product(a, b, bias, out_dtype):
    c = a @ b.T
    return (c if bias is None else c + bias.float()).to(out_dtype)


def torch_scaled_mm(a, b, scale_a, scale_b, bias, out_dtype):
    import torch

    if a.dtype == b.dtype == torch.float8_e5m2:
        return None
    if scale_a.numel() > 1 or scale_b.numel() > 1:
        scale_a = scale_a.expand(a.shape[0])[:, None].contiguous()
        scale_b = scale_b.expand(b.shape[0])[None].contiguous()
    return torch._scaled_mm(a, b.T, scale_a, scale_b, bias, out_dtype=out_dtype, use_fast_accum=True)


def deep_gemm(a, b, scale_a, scale_b, bias, out_dtype):
    import torch
    from deep_gemm import fp8_gemm_nt

    if bias is not None or out_dtype != torch.bfloat16 or (a.dtype, b.dtype) != 2 * (torch.float8_e4m3fn,):
        return None
    c = torch.empty(a.shape[0], b.shape[0], dtype=torch.bfloat16, device=a.device)
    fp8_gemm_nt((a, scale_a), (b, scale_b), c)
    return c


@tkjit.kernel(
    "scaled_matmul.cu",
    entry="scaled_matmul<T, U, out_dtype, RowScales<out_dtype>>",
    struct="Problem<T, U, out_dtype, RowScales<out_dtype>>",
    tune={"STAGES": (4, 3, 5, 6), "TILE_N": (256, 128)},
    constraints=["STAGES * (128 + TILE_N) <= 1536", "(SA == 1) + (SA == M) >= 1", "(SB == 1) + (SB == N) >= 1"],
    examples=[
        {"M": 70, "N": 40, "K": 96, "SA": 1, "SB": 1},
        {"M": 130, "N": 72, "K": 200, "SA": 130, "SB": 72},
        {"M": 3, "N": 7, "K": 37, "SA": 1, "SB": 7},
    ],
    sizes=[
        {"M": 4096, "N": 4096, "K": 4096, "SA": 1, "SB": 1},
        {"M": 8192, "N": 8192, "K": 8192, "SA": 1, "SB": 1},
        {"M": 128, "N": 4096, "K": 14336, "SA": 128, "SB": 4096},
    ],
    peers={"_scaled_mm": torch_scaled_mm},
    **COMMON,
)
def scaled_matmul(
    a: In[Tensor, "T", "M", "K"],
    b: In[Tensor, "U", "N", "K"],
    scale_a: In[Tensor, "float32", "SA", Member("finish.scale_a")],
    scale_b: In[Tensor, "float32", "SB", Member("finish.scale_b")],
    bias: In[Tensor, "out_dtype", "N", Member("finish.bias")] | None = None,
    out_dtype: DType = "bfloat16",
    *,
    sums: Scratch[Tensor, "float32", "SPLIT_SUMS", Member("partial.sums")],
    finished: Scratch[Tensor, "int32", "SPLIT_TILES", Member("partial.finished"), Zero],
    c: Out[Tensor, "out_dtype", "M", "N"],
) -> Tensor:
    """Computes (a * scale_a) @ (b * scale_b).T + bias.

    Parameters
    ----------
    a : (M, K) float8_e4m3fn or float8_e5m2
    b : (N, K) float8_e4m3fn or float8_e5m2
    scale_a : (1,), (M,) or (M, ceil(K / 128)) float32
        For the whole matrix, for each row, or for each 128 elements of a row.
    scale_b : (1,), (N,) or (ceil(N / 128), ceil(K / 128)) float32
        For the whole matrix, for each row, or for each 128 x 128 elements. Pass scales for blocks for both matrices, or
        for neither.
    bias : (N,) of out_dtype, optional
    out_dtype : bfloat16, float16 or float32

    Returns
    -------
    c : (M, N) of out_dtype

    Notes
    -----
    The method is that of `gemm`; GPUs other than Hopper multiply in float16, in which numbers of 8 bits are exact.
    Hopper's tensor cores add up products of 8-bit floats with fewer bits than float32 has. With scales for blocks, the
    sums of each 128 products are added up in float32; with other scales they are not. Source: DeepSeek-AI,
    "DeepSeek-V3 Technical Report", 2024, section 3.3.
    """
    return product(a.float() * scale_a[:, None], b.float() * scale_b[:, None], bias, out_dtype)


@scaled_matmul.overload(
    "scaled_matmul.cu",
    entry="scaled_matmul<T, U, out_dtype, BlockScales<out_dtype>>",
    struct="Problem<T, U, out_dtype, BlockScales<out_dtype>>",
    tune={"STAGES": (5, 4, 6), "TILE_N": (128,)},
    constraints="STAGES * (128 + TILE_N) <= 1536",
    sizes=SIZES,
    peers={"DeepGEMM": deep_gemm},
    **COMMON,
)
def scaled_matmul(
    a: In[Tensor, "T", "M", "K"],
    b: In[Tensor, "U", "N", "K"],
    scale_a: In[Tensor, "float32", "M", "cdiv(K, 128)", Member("finish.scale_a")],
    scale_b: In[Tensor, "float32", "cdiv(N, 128)", "cdiv(K, 128)", Member("finish.scale_b")],
    bias: In[Tensor, "out_dtype", "N", Member("finish.bias")] | None = None,
    out_dtype: DType = "bfloat16",
    *,
    sums: Scratch[Tensor, "float32", "SPLIT_SUMS", Member("partial.sums")],
    finished: Scratch[Tensor, "int32", "SPLIT_TILES", Member("partial.finished"), Zero],
    c: Out[Tensor, "out_dtype", "M", "N"],
) -> Tensor:
    """Computes (a * scale_a) @ (b * scale_b).T + bias, with scales for blocks."""
    per_row = scale_a.repeat_interleave(128, 1)[:, : a.shape[1]]
    per_block = scale_b.repeat_interleave(128, 0)[: b.shape[0]].repeat_interleave(128, 1)[:, : b.shape[1]]
    return product(a.float() * per_row, b.float() * per_block, bias, out_dtype)
