"""Matrix product in float32: two stages of shared memory, filled by cp.async."""

import tkjit
from tkjit import Align, In, Out, Tensor


@tkjit.kernel(
    "gemm_cp_async.cu",
    entry="gemm_cp_async",
    grid="cdiv(N, 32), cdiv(M, 32)",
    block=256,
    constraints=["K % 4 == 0", "N % 4 == 0"],  # rows start at multiples of 16 bytes, for the copies
)
def gemm_cp_async(
    a: In[Tensor, "float32", "M", "K", Align(16)],
    b: In[Tensor, "float32", "K", "N", Align(16)],
    c: Out[Tensor, "float32", "M", "N"],
) -> Tensor:
    """Computes a @ b.

    Parameters
    ----------
    a : (M, K) float32, row-major, K a multiple of 4
    b : (K, N) float32, row-major, N a multiple of 4

    Returns
    -------
    c : (M, N) float32
    """
    return a @ b
