"""ThunderKittens' GEMM for H100: persistent, warp-specialised, a pipeline of tiles in shared memory."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/bf16_h100/bf16_h100_gemm.cu",
    entry="prototype::lcf::kernel<matmul_template<2, 4, 8>>",
    struct="matmul_layout<2, 4>::globals",
    grid=CExpr("matmul_template<2, 4, 8>::grid(M, N, K)"),
    block=CExpr("prototype::detail::NUM_THREADS_v<matmul_template<2, 4, 8>>"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 1024"),
    constraints=["M % 128 == 0", "N % 256 == 0", "K % 64 == 0"],
)
def tk_gemm(
    A: In[Tensor, "bfloat16", "M", "K"], B: In[Tensor, "bfloat16", "K", "N"], C: Out[Tensor, "bfloat16", "M", "N"]
) -> Tensor:
    """C = A @ B."""
    return A @ B
