"""Sums of squares: a producer and a consumer warp, with named barriers between them."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel("hand_over.cu", entry="hand_over", grid="M", block=64)
def hand_over(x: In[Tensor, "float32", "M", "N"], y: Out[Tensor, "float32", "M"]) -> Tensor:
    """Computes the sum of squares of each row.

    Parameters
    ----------
    x : (M, N) float32, row-major

    Returns
    -------
    y : (M,) float32
    """
    return x.square().sum(-1)
