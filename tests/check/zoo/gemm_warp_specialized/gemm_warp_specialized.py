"""Matrix product in float32: a producer warp, bulk copies, a ring of stages with mbarriers, and consumer warps."""

import tkjit
from tkjit import Align, In, Out, Tensor


@tkjit.kernel(
    "gemm_warp_specialized.cu",
    entry="gemm_warp_specialized",
    grid="N // 32, M // 32",
    block=128 + 32,
    constraints=["M % 32 == 0", "N % 32 == 0", "K % 16 == 0"],
)
def gemm_warp_specialized(
    a: In[Tensor, "float32", "M", "K", Align(16)],
    b: In[Tensor, "float32", "K", "N", Align(16)],
    c: Out[Tensor, "float32", "M", "N"],
) -> Tensor:
    """Computes a @ b.

    Parameters
    ----------
    a : (M, K) float32, row-major, M a multiple of 32 and K of 16
    b : (K, N) float32, row-major, N a multiple of 32

    Returns
    -------
    c : (M, N) float32
    """
    return a @ b
