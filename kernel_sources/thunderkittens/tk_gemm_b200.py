"""ThunderKittens' GEMM for B200, of bfloat16."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/bf16_b200/bf16_b200_gemm.cu"},
    entry="kernel<config<256, 256, 64, 4, false, 4, 8>>",
    struct="globals<config<256, 256, 64, 4, false, 4, 8>>",
    cluster=2,
    pdl=True,
    constraints=["M % 512 == 0", "N % 256 == 0", "K % 64 == 0"],
)
def tk_gemm_b200(
    a: In[Tensor, "bfloat16", "M", "K"], b: In[Tensor, "bfloat16", "N", "K"], d: Out[Tensor, "bfloat16", "M", "N"]
) -> Tensor:
    """``d = a @ b.T``."""
    return a @ b.T
