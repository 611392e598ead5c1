"""ThunderKittens' educational GEMM for B200, level 8: results leave in four parts."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_08.cu"},
    entry="matmul_kernel",
    args=True,
    computed={"N": "N"},
    grid="(N // 128) * (N // 256)",
    block=CExpr("NUM_THREADS"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 1024"),
    constraints="N % 256 == 0",
)
def tk_gemm_b200_level_8(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices."""
    return A @ B
