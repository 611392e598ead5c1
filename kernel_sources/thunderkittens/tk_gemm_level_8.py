"""ThunderKittens' educational GEMM for H100, level 8: two consumer warpgroups and tiles four wide."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_08.cu",
    entry="kernel",
    struct="matmul_globals",
    computed={"N": "N"},
    grid="cdiv(N, 256), cdiv(N, 128)",
    block=CExpr("NUM_THREADS"),
    shared_memory=200000,
    constraints="N % 256 == 0",
)
def tk_gemm_level_8(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices."""
    return A @ B
