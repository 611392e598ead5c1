"""ThunderKittens' GEMMs for H100."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


def quantized(arguments):
    """Quantize the rows of A and B to 8-bit floats, and return them with the scales that they were divided by."""
    inputs = {}
    for name in "AB":
        values = arguments[name].float()
        scale = values.abs().amax(1) / 448
        inputs[name] = (values / scale[:, None]).to(arguments[name].dtype)
        inputs[f"scale_{name.lower()}"] = scale
    return inputs


# GEMM for H100: persistent, warp-specialised, with a pipeline of tiles in shared memory
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
    """Computes A @ B."""
    return A @ B


# GEMM for H100, in 8-bit floats
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
    """Computes A @ B.T, summed in float32. The result saturates at 448."""
    return (A.float() @ B.float().T).clamp(-448, 448).to(A.dtype)


# GEMM for H100, in 8-bit floats with a scale for each row of A and of B
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/fp8_h100_scaled/fp8_h100_gemm_scaled.cu",
    entry="prototype::lcf::kernel<matmul_template<8>>",
    struct="matmul_layout::globals",
    fields="A B C scale_a scale_b",
    grid=CExpr("matmul_template<8>::grid(M, N, K)"),
    block=CExpr("prototype::detail::NUM_THREADS_v<matmul_template<8>>"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 1024"),
    constraints=["M % 128 == 0", "N % 128 == 0", "K % 128 == 0"],
    prepare=quantized,
    tolerance=0.01,
)
def tk_gemm_fp8_scaled(
    A: In[Tensor, "float8_e4m3fn", "M", "K"],
    B: In[Tensor, "float8_e4m3fn", "N", "K"],
    scale_a: In[Tensor, "float32", "M"],
    scale_b: In[Tensor, "float32", "N"],
    C: Out[Tensor, "float32", "M", "N"],
) -> Tensor:
    """Computes (scale_a * A) @ (scale_b * B).T, with a scale for each row.

    A row is quantized by dividing it by its scale, which is its largest absolute value divided by 448.
    """
    return (A.float() @ B.float().T) * scale_a[:, None] * scale_b
