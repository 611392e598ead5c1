"""ThunderKittens' educational GEMM for H100, level 1: one thread an element, in float32."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_01.cu",
    entry="kernel",
    args=True,
    computed={"N": "N"},
    grid="cdiv(N, 32), cdiv(N, 32)",
    block="32, 32",
    constraints="N <= 46340",  # it counts elements in 32 bits
)
def tk_gemm_level_1(
    A: In[Tensor, "float32", "N", "N"], B: In[Tensor, "float32", "N", "N"], C: Out[Tensor, "float32", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices in float32."""
    return A @ B
