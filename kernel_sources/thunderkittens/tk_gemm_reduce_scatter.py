"""ThunderKittens' GEMM for H100 whose sum over 8 devices is shared out by rows."""

import tkjit
from tkjit import In, InOut, ParallelTensor, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/gemm_rs/gemm_rs_h100.cu",
    entry="matmul_reduce_scatter::kernel",
    struct="matmul_reduce_scatter::globals",
    config="matmul_reduce_scatter::config",
    constraints=["M == 8 * rows", "rows % 128 == 0", "N % 256 == 0", "K % 256 == 0"],
    computed={"dev_idx": "dev_idx"},
    num_devices=8,
)
def tk_gemm_reduce_scatter(
    A: In[Tensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "K", "N"],
    C: InOut[ParallelTensor, "bfloat16", "rows", "N"],
) -> None:
    """C <- C + this device's eighth of the rows of the sum of all devices' A @ B.

    Parameters
    ----------
    A : (M, K) bfloat16 on each of 8 devices
    B : (K, N) bfloat16 on each
    C : (M // 8, N) bfloat16 on each
        Zeros, before any device begins: ``tk_device_barrier`` before and after.
    """
    total = sum(a.float() @ b.float() for a, b in zip(A, B, strict=True))
    for part, rows in zip(C, total.chunk(8), strict=True):
        part += rows.to(part.dtype)
