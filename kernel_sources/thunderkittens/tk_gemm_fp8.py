"""ThunderKittens' GEMM of 8-bit floats for H100."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/fp8_h100/fp8_h100_gemm.cu",
    entry="prototype::lcf::kernel<matmul_template<8>>",
    struct="matmul_layout::globals",
    grid=CExpr("matmul_template<8>::grid(M, N, K)"),
    block=CExpr("prototype::detail::NUM_THREADS_v<matmul_template<8>>"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 1024"),
    constraints=["M % 128 == 0", "N % 256 == 0", "K % 128 == 0"],
)
def tk_gemm_fp8(
    A: In[Tensor, "float8_e4m3fn", "M", "K"],
    B: In[Tensor, "float8_e4m3fn", "N", "K"],
    C: Out[Tensor, "float8_e4m3fn", "M", "N"],
) -> Tensor:
    """C = A @ B.T, summed in float32; what passes 448 in C becomes 448."""
    return (A.float() @ B.float().T).clamp(-448, 448).to(A.dtype)
