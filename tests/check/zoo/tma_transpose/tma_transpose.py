"""Transposes a matrix with tensor maps in both directions, in inline PTX."""

import tkjit
from tkjit import Align, In, Out, Tensor


@tkjit.kernel(
    "tma_transpose.cu",
    entry="tma_transpose",
    struct="Problem",
    grid="min(cdiv(M, 32) * cdiv(N, 32), 2)",
    block=64,
    constraints=["M % 4 == 0", "N % 4 == 0"],  # a tensor map's rows are multiples of 16 bytes
)
def tma_transpose(
    x: In[Tensor, "float32", "M", "N", Align(16)],
    y: Out[Tensor, "float32", "N", "M", Align(16)],
) -> Tensor:
    """Computes x.T.

    Parameters
    ----------
    x : (M, N) float32, M and N multiples of 4

    Returns
    -------
    y : (N, M) float32
    """
    return x.T.contiguous()
