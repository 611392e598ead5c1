"""Dot products of rows of halves: vector types, a barrier that votes, a tree in shared memory."""

import tkjit
from tkjit import Align, In, Out, Tensor


@tkjit.kernel("half_dot.cu", entry="half_dot", grid="M", block=64, constraints=["N % 2 == 0"])
def half_dot(
    x: In[Tensor, "float16", "M", "N", Align(4)],
    y: In[Tensor, "float16", "M", "N", Align(4)],
    z: Out[Tensor, "float32", "M"],
) -> Tensor:
    """z[m] <- the sum of x[m, n] * y[m, n], and 0 where that is not finite.

    Parameters
    ----------
    x, y : (M, N) float16, row-major, N even

    Returns
    -------
    z : (M,) float32
    """
    return (x.float() * y.float()).sum(-1)
