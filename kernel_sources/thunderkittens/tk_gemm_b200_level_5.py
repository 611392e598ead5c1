"""ThunderKittens' educational GEMM for B200, level 5: tiles come by TMA."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_05.cu"},
    entry="matmul_kernel",
    args=True,
    computed={"N": "N"},
    grid="N // 64, N // 64",
    block=CExpr("NUM_THREADS"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 1024"),
    constraints="N % 64 == 0",
)
def tk_gemm_b200_level_5(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices."""
    return A @ B
