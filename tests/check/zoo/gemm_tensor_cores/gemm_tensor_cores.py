"""Matrix product in bfloat16: mma.sync and ldmatrix."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel("gemm_tensor_cores.cu", entry="gemm_tensor_cores", grid="cdiv(N, 32), cdiv(M, 32)", block=128)
def gemm_tensor_cores(
    a: In[Tensor, "bfloat16", "M", "K"],
    b: In[Tensor, "bfloat16", "K", "N"],
    c: Out[Tensor, "bfloat16", "M", "N"],
) -> Tensor:
    """Computes a @ b, with sums in float32.

    Parameters
    ----------
    a : (M, K) bfloat16, row-major
    b : (K, N) bfloat16, row-major

    Returns
    -------
    c : (M, N) bfloat16
    """
    return a @ b
