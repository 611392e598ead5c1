"""ThunderKittens' educational GEMM for B200, level 2: one thread an element, in bfloat16."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_02.cu"},
    entry="kernel",
    args=True,
    computed={"N": "N"},
    grid="cdiv(N, 32), cdiv(N, 32)",
    block="32, 32",
    constraints="N <= 46340",  # it counts elements in 32 bits
)
def tk_gemm_b200_level_2(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices; each product is rounded to bfloat16, their sum is in float32."""
    return A @ B
