"""ThunderKittens' GEMM for B200, of 4-bit floats with a scale for each 16 of a row and one for all (NVFP4)."""

import tkjit
from tkjit import In, Out, Tensor


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
    """``D = (A_sc * A) @ (B_sc * B).T * A_sc_global * B_sc_global``, each of the scales one of 16 numbers.

    Parameters
    ----------
    A, B : (M, K // 2) and (N, K // 2) float4_e2m1fn_x2
        Two numbers in a byte, the first in the low bits.
    A_sc, B_sc : (M // 128, K // 64, 256) float16
        Bytes of float8_e4m3fn, as the source takes them: of row r and block b of a tile of 128 rows and 4 blocks, byte
        ``r % 32 * 16 + r // 32 * 4 + b``. ``scales.view(torch.float16)`` makes them of 512 bytes.
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
