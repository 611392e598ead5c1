"""Transposes a matrix through padded tiles in static shared memory."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel("transpose.cu", entry="transpose", grid="cdiv(N, 32), cdiv(M, 32)", block=(32, 8))
def transpose(x: In[Tensor, "float32", "M", "N"], y: Out[Tensor, "float32", "N", "M"]) -> Tensor:
    """Computes x.T.

    Parameters
    ----------
    x : (M, N) float32, row-major

    Returns
    -------
    y : (N, M) float32, row-major
    """
    return x.T.contiguous()
