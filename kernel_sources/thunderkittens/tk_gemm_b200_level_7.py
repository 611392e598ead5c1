"""ThunderKittens' educational GEMM for B200, level 7: a loading and a multiplying warp, three stages."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_07.cu"},
    entry="matmul_kernel",
    args=True,
    computed={"N": "N"},
    grid="(N // 128) * (N // 128)",
    block=CExpr("NUM_THREADS"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 1024"),
    constraints="N % 128 == 0",
)
def tk_gemm_b200_level_7(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices."""
    return A @ B
