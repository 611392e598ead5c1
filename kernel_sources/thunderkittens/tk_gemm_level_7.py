"""ThunderKittens' educational GEMM for H100, level 7: a producer and a consumer warpgroup."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_07.cu",
    entry="kernel",
    struct="matmul_globals",
    computed={"N": "N"},
    grid="cdiv(N, 64), cdiv(N, 64)",
    block=CExpr("NUM_THREADS"),
    shared_memory=100000,
    constraints="N % 64 == 0",
)
def tk_gemm_level_7(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices."""
    return A @ B
