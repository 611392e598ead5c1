"""ThunderKittens' GEMMs with a reduce-scatter of rows over 8 devices."""

import tkjit
from tkjit import In, InOut, ParallelTensor, Tensor

SCATTERED = {
    "entry": "matmul_reduce_scatter::kernel",
    "struct": "matmul_reduce_scatter::globals",
    "config": "matmul_reduce_scatter::config",
    "computed": {"dev_idx": "dev_idx"},
    "num_devices": 8,
}


def scatter(total, C):
    for part, rows in zip(C, total.chunk(8), strict=True):
        part += rows.to(part.dtype)


@tkjit.kernel(
    "<thunderkittens>/kernels/parallel/gemm_rs/gemm_rs_h100.cu",
    constraints=["M == 8 * rows", "rows % 128 == 0", "N % 256 == 0", "K % 256 == 0"],
    examples={"M": 2048, "N": 512, "K": 512, "rows": 256},
    **SCATTERED,
)
def tk_gemm_reduce_scatter(
    A: In[Tensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "K", "N"],
    C: InOut[ParallelTensor, "bfloat16", "rows", "N"],
) -> None:
    """Sums A @ B over all devices, and adds to each device's C its eighth of the rows.

    Parameters
    ----------
    A : (M, K) bfloat16 on each of 8 devices
    B : (K, N) bfloat16 on each
    C : (M // 8, N) bfloat16 on each
        Zeros before any device begins: call ``tk_device_barrier`` before and after.
    """
    scatter(sum(a.float() @ b.float() for a, b in zip(A, B, strict=True)), C)


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/parallel/gemm_rs/gemm_rs_b200.cu"},
    constraints=["M == 8 * rows", "rows % 128 == 0", "N % 256 == 0", "K % 64 == 0", "K >= 256"],
    examples={"M": 2048, "N": 512, "K": 512, "rows": 256},
    **SCATTERED,
)
def tk_gemm_reduce_scatter_b200(
    A: In[Tensor, "bfloat16", "M", "K"],
    B: In[Tensor, "bfloat16", "N", "K"],
    C: InOut[ParallelTensor, "bfloat16", "rows", "N"],
) -> None:
    """Sums A @ B.T over all devices, and adds to each device's C its eighth of the rows.

    Parameters
    ----------
    A : (M, K) bfloat16 on each of 8 devices
    B : (N, K) bfloat16 on each
    C : (M // 8, N) bfloat16 on each
        Zeros before any device begins: call ``tk_device_barrier`` before and after.
    """
    scatter(sum(left.float() @ right.float().T for left, right in zip(A, B, strict=True)), C)


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/parallel/gemm_rs_fp8/gemm_rs_fp8_b200.cu"},
    constraints=["M == 8 * rows", "rows % 128 == 0", "N % 256 == 0", "K % 128 == 0", "K >= 512"],
    examples={"M": 2048, "N": 512, "K": 1024, "rows": 256},
    **SCATTERED,
)
def tk_gemm_reduce_scatter_fp8_b200(
    a: In[Tensor, "float8_e4m3fn", "M", "K"],
    b: In[Tensor, "float8_e4m3fn", "N", "K"],
    d: InOut[ParallelTensor, "bfloat16", "rows", "N"],
) -> None:
    """Sums a @ b.T over all devices, and adds to each device's d its eighth of the rows.

    Parameters
    ----------
    a : (M, K) float8_e4m3fn on each of 8 devices
    b : (N, K) float8_e4m3fn on each
    d : (M // 8, N) bfloat16 on each
        Zeros before any device begins: call ``tk_device_barrier`` before and after.
    """
    scatter(sum(left.float() @ right.float().T for left, right in zip(a, b, strict=True)), d)
