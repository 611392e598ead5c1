"""ThunderKittens' GEMM for B200, of 8-bit floats with a scale for each 32 of a row (MXFP8)."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/mxfp8_b200/mxfp8_b200_gemm.cu"},
    entry="mxfp8_gemm::kernel<mxfp8_gemm::config<256, 6, 16, 12, 4, false>>",
    struct="mxfp8_gemm::globals<mxfp8_gemm::config<256, 6, 16, 12, 4, false>>",
    config="mxfp8_gemm::config<256, 6, 16, 12, 4, false>",
    constraints=["M % 256 == 0", "N % 256 == 0", "K == 128 * K_tiles", "M == 128 * M_tiles", "N == 128 * N_tiles"],
)
def tk_gemm_mxfp8(
    A: In[Tensor, "float8_e4m3fn", "M", "K"],
    A_sc: In[Tensor, "float8_e8m0fnu", "M_tiles", "K_tiles", 32, 16],
    B: In[Tensor, "float8_e4m3fn", "N", "K"],
    B_sc: In[Tensor, "float8_e8m0fnu", "N_tiles", "K_tiles", 32, 16],
    D: Out[Tensor, "bfloat16", "M", "N"],
) -> Tensor:
    """``D = (A_sc * A) @ (B_sc * B).T``, each scale one of 32 numbers.

    Parameters
    ----------
    A_sc, B_sc : (M // 128, K // 128, 32, 16) float8_e8m0fnu
        As ``tk_mxfp8_quantize`` gives them: of row r and block b of a tile of 128 rows and 4 blocks, at
        ``[r % 32, r // 32 * 4 + b]``.
    """

    def scaled(values: Tensor, scales: Tensor) -> Tensor:
        rows, blocks = scales.shape[0] * 128, scales.shape[1] * 4
        by_block = scales.float().unflatten(3, (4, 4)).permute(0, 3, 2, 1, 4).reshape(rows, blocks)
        return values.float() * by_block.repeat_interleave(32, 1)

    return (scaled(A, A_sc) @ scaled(B, B_sc).T).bfloat16()
