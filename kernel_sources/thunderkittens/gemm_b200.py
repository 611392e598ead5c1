"""ThunderKittens' GEMMs for B200."""

import tkjit
from tkjit import In, Out, Tensor


def small_scales(arguments):
    """Return random scales for blocks of 4-bit floats, two in each 16-bit number, and one scale for each matrix."""
    import torch

    inputs = {}
    for name in "AB":
        scales = torch.rand(*arguments[f"{name}_sc"].shape[:2], 512) + 0.5
        inputs[f"{name}_sc"] = scales.to(torch.float8_e4m3fn).view(torch.float16)
        inputs[f"{name}_sc_global"] = torch.rand(1) + 0.5
    return inputs


def powers_of_two(arguments):
    """Return random scales for blocks of 8-bit floats: powers of two from 1/8 to 8."""
    import torch

    codes = {name: torch.randint(124, 131, arguments[name].shape) for name in ("A_sc", "B_sc")}
    return {name: each.to(torch.uint8).view(torch.float8_e8m0fnu) for name, each in codes.items()}


# GEMM for B200, in bfloat16
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/bf16_b200/bf16_b200_gemm.cu"},
    entry="kernel<config<256, 256, 64, 4, false, 4, 8>>",
    struct="globals<config<256, 256, 64, 4, false, 4, 8>>",
    cluster=2,
    pdl=True,
    constraints=["M % 512 == 0", "N % 256 == 0", "K % 64 == 0"],
)
def tk_gemm_b200(
    a: In[Tensor, "bfloat16", "M", "K"], b: In[Tensor, "bfloat16", "N", "K"], d: Out[Tensor, "bfloat16", "M", "N"]
) -> Tensor:
    """Computes a @ b.T."""
    return a @ b.T


# GEMM for B200, in 8-bit floats
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/fp8_b200/fp8_b200_gemm.cu"},
    entry="kernel<config<256, 256, 128, 8, false, 4, 8>>",
    struct="globals<config<256, 256, 128, 8, false, 4, 8>>",
    cluster=2,
    pdl=True,
    constraints=["M % 512 == 0", "N % 256 == 0", "K % 128 == 0"],
)
def tk_gemm_fp8_b200(
    a: In[Tensor, "float8_e4m3fn", "M", "K"],
    b: In[Tensor, "float8_e4m3fn", "N", "K"],
    d: Out[Tensor, "bfloat16", "M", "N"],
) -> Tensor:
    """Computes a @ b.T."""
    return (a.float() @ b.float().T).bfloat16()


# GEMM for B200, in 4-bit floats with a scale for every 16 numbers of a row and one for all (NVFP4)
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/nvfp4_b200/nvfp4_b200_gemm.cu"},
    entry="nvfp4_gemm::kernel<nvfp4_gemm::config<256, 4, 8, 12, 2, false>>",
    struct="nvfp4_gemm::globals<nvfp4_gemm::config<256, 4, 8, 12, 2, false>>",
    config="nvfp4_gemm::config<256, 4, 8, 12, 2, false>",
    constraints=[
        "M % 256 == 0",
        "N % 256 == 0",
        "pairs % 128 == 0",
        "pairs == 32 * K_tiles",
        "M == 128 * M_tiles",
        "N == 128 * N_tiles",
    ],
    examples={"M": 512, "N": 256, "pairs": 128, "M_tiles": 4, "N_tiles": 2, "K_tiles": 4},
    prepare=small_scales,
    tolerance=0.01,
)
def tk_gemm_nvfp4(
    A: In[Tensor, "float4_e2m1fn_x2", "M", "pairs"],
    A_sc: In[Tensor, "float16", "M_tiles", "K_tiles", 256],
    A_sc_global: In[Tensor, "float32", 1],
    B: In[Tensor, "float4_e2m1fn_x2", "N", "pairs"],
    B_sc: In[Tensor, "float16", "N_tiles", "K_tiles", 256],
    B_sc_global: In[Tensor, "float32", 1],
    D: Out[Tensor, "bfloat16", "M", "N"],
) -> Tensor:
    """Computes ``(A_sc * A) @ (B_sc * B).T * A_sc_global * B_sc_global``, with a scale for every 16 numbers.

    Parameters
    ----------
    A, B : (M, K // 2) and (N, K // 2) float4_e2m1fn_x2
        Two numbers in a byte, the first in the low bits.
    A_sc, B_sc : (M // 128, K // 64, 256) float16
        Bytes of float8_e4m3fn in the source's order: the scale of row r and block b, in a tile of 128 rows and 4
        blocks, is byte ``r % 32 * 16 + r // 32 * 4 + b``. ``scales.view(torch.float16)`` converts the 512 bytes.
    """
    import torch

    magnitudes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device=A.device)
    numbers = torch.cat([magnitudes, -magnitudes])

    def scaled(pairs: Tensor, scales: Tensor) -> Tensor:
        codes = pairs.view(torch.uint8).int()
        values = numbers[torch.stack([codes & 15, codes >> 4], 2)].flatten(1)
        by_place = scales.view(torch.float8_e4m3fn).float().unflatten(2, (32, 4, 4))
        by_block = by_place.permute(0, 3, 2, 1, 4).reshape(len(values), -1)
        return values * by_block.repeat_interleave(16, 1)

    return (scaled(A, A_sc) @ scaled(B, B_sc).T * (A_sc_global * B_sc_global)).bfloat16()


# GEMM for B200, in 8-bit floats with a scale for every 32 numbers of a row (MXFP8)
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/mxfp8_b200/mxfp8_b200_gemm.cu"},
    entry="mxfp8_gemm::kernel<mxfp8_gemm::config<256, 6, 16, 12, 4, false>>",
    struct="mxfp8_gemm::globals<mxfp8_gemm::config<256, 6, 16, 12, 4, false>>",
    config="mxfp8_gemm::config<256, 6, 16, 12, 4, false>",
    constraints=["M % 256 == 0", "N % 256 == 0", "K == 128 * K_tiles", "M == 128 * M_tiles", "N == 128 * N_tiles"],
    examples={"M": 512, "N": 256, "K": 384, "M_tiles": 4, "N_tiles": 2, "K_tiles": 3},
    prepare=powers_of_two,
    tolerance=0.01,
)
def tk_gemm_mxfp8(
    A: In[Tensor, "float8_e4m3fn", "M", "K"],
    A_sc: In[Tensor, "float8_e8m0fnu", "M_tiles", "K_tiles", 32, 16],
    B: In[Tensor, "float8_e4m3fn", "N", "K"],
    B_sc: In[Tensor, "float8_e8m0fnu", "N_tiles", "K_tiles", 32, 16],
    D: Out[Tensor, "bfloat16", "M", "N"],
) -> Tensor:
    """Computes ``(A_sc * A) @ (B_sc * B).T``, with a scale for every 32 numbers.

    Parameters
    ----------
    A_sc, B_sc : (M // 128, K // 128, 32, 16) float8_e8m0fnu
        As ``tk_mxfp8_quantize`` returns them: the scale of row r and block b, in a tile of 128 rows and 4 blocks, is
        at ``[r % 32, r // 32 * 4 + b]``.
    """

    def scaled(values: Tensor, scales: Tensor) -> Tensor:
        rows, blocks = scales.shape[0] * 128, scales.shape[1] * 4
        by_block = scales.float().unflatten(3, (4, 4)).permute(0, 3, 2, 1, 4).reshape(rows, blocks)
        return values.float() * by_block.repeat_interleave(32, 1)

    return (scaled(A, A_sc) @ scaled(B, B_sc).T).bfloat16()


# quantization for B200: to 8-bit floats with a scale for every 32 numbers of a row (MXFP8)
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/mxfp8_b200/mxfp8_b200_gemm.cu"},
    entry="mxfp8_quantize::kernel",
    struct="mxfp8_quantize::globals",
    config="mxfp8_quantize::config",
    constraints=["M % 128 == 0", "K % 128 == 0"],
)
def tk_mxfp8_quantize(
    A_bf16: In[Tensor, "bfloat16", "M", "K"],
    A_fp8: Out[Tensor, "float8_e4m3fn", "M", "K"],
    A_sc: Out[Tensor, "float8_e8m0fnu", "M // 128", "K // 128", 32, 16],
) -> tuple[Tensor, Tensor]:
    """Quantizes to 8-bit floats and scales for ``tk_gemm_mxfp8``.

    A scale is the largest absolute value of 32 numbers divided by 448, rounded up to a power of two.
    """
    import torch

    blocks = A_bf16.float().unflatten(1, (-1, 32))
    exponents = (blocks.abs().amax(2) / 448).clamp(min=1e-12).log2().ceil()
    values = (blocks / exponents.exp2()[:, :, None]).flatten(1).to(torch.float8_e4m3fn)
    scales = (exponents + 127).to(torch.uint8).view(torch.float8_e8m0fnu)
    tiles = scales.view(torch.uint8).unflatten(0, (-1, 4, 32)).unflatten(3, (-1, 4)).permute(0, 3, 2, 1, 4)
    return values, tiles.flatten(3).contiguous().view(torch.float8_e8m0fnu)
