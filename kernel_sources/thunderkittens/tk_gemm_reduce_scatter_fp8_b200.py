"""ThunderKittens' GEMM for B200, of 8-bit floats whose sum over 8 devices is shared out by rows."""

import tkjit
from tkjit import In, InOut, ParallelTensor, Tensor


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/parallel/gemm_rs_fp8/gemm_rs_fp8_b200.cu"},
    entry="matmul_reduce_scatter::kernel",
    struct="matmul_reduce_scatter::globals",
    config="matmul_reduce_scatter::config",
    constraints=["M == 8 * rows", "rows % 128 == 0", "N % 256 == 0", "K % 128 == 0", "K >= 512"],
    computed={"dev_idx": "dev_idx"},
    num_devices=8,
)
def tk_gemm_reduce_scatter_fp8_b200(
    a: In[Tensor, "float8_e4m3fn", "M", "K"],
    b: In[Tensor, "float8_e4m3fn", "N", "K"],
    d: InOut[ParallelTensor, "bfloat16", "rows", "N"],
) -> None:
    """d <- d + this device's eighth of the rows of the sum of all devices' a @ b.T.

    Parameters
    ----------
    a : (M, K) float8_e4m3fn on each of 8 devices
    b : (N, K) float8_e4m3fn on each
    d : (M // 8, N) bfloat16 on each
        Zeros, before any device begins: ``tk_device_barrier`` before and after.
    """
    total = sum(left.float() @ right.float().T for left, right in zip(a, b, strict=True))
    for part, rows in zip(d, total.chunk(8), strict=True):
        part += rows.to(part.dtype)
