"""ThunderKittens' educational GEMM for B200, level 4: one warp, tensor cores."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_04.cu"},
    entry="kernel",
    struct="matmul_globals",
    computed={"N": "N"},
    grid="N // 32, N // 32",
    block=CExpr("NUM_THREADS"),
    shared_memory=100000,
    constraints="N % 32 == 0",
)
def tk_gemm_b200_level_4(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices."""
    return A @ B
