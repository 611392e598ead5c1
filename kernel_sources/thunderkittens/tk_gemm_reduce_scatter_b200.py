"""ThunderKittens' GEMM for B200 whose sum over 8 devices is shared out by rows."""

import tkjit
from tkjit import In, InOut, ParallelTensor, Tensor


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/parallel/gemm_rs/gemm_rs_b200.cu"},
    entry="matmul_reduce_scatter::kernel",
    struct="matmul_reduce_scatter::globals",
    config="matmul_reduce_scatter::config",
    constraints=["M == 8 * rows", "rows % 128 == 0", "N % 256 == 0", "K % 64 == 0", "K >= 256"],
    computed={"dev_idx": "dev_idx"},
    num_devices=8,
)
def tk_gemm_reduce_scatter_b200(
    A: In[Tensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "N", "K"],
    C: InOut[ParallelTensor, "bfloat16", "rows", "N"],
) -> None:
    """C <- C + this device's eighth of the rows of the sum of all devices' A @ B.T.

    Parameters
    ----------
    A : (M, K) bfloat16 on each of 8 devices
    B : (N, K) bfloat16 on each
    C : (M // 8, N) bfloat16 on each
        Zeros, before any device begins: ``tk_device_barrier`` before and after.
    """
    total = sum(left.float() @ right.float().T for left, right in zip(A, B, strict=True))
    for part, rows in zip(C, total.chunk(8), strict=True):
        part += rows.to(part.dtype)
