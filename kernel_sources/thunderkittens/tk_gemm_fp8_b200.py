"""ThunderKittens' GEMM for B200, of 8-bit floats."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/fp8_b200/fp8_b200_gemm.cu"},
    entry="kernel<config<256, 256, 128, 8, false, 4, 8>>",
    struct="globals<config<256, 256, 128, 8, false, 4, 8>>",
    cluster=2,
    pdl=True,
    constraints=["M % 512 == 0", "N % 256 == 0", "K % 128 == 0"],
)
def tk_gemm_fp8_b200(
    a: In[Tensor, "float8_e4m3fn", "M", "K"],
    b: In[Tensor, "float8_e4m3fn", "N", "K"],
    d: Out[Tensor, "bfloat16", "M", "N"],
) -> Tensor:
    """``d = a @ b.T``."""
    return (a.float() @ b.float().T).bfloat16()
