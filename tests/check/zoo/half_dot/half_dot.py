"""Dot products of float16 rows: vector types, a barrier with a vote, and a tree in shared memory."""

import tkjit
from tkjit import Align, In, Out, Tensor


@tkjit.kernel("half_dot.cu", entry="half_dot", grid="M", block=64, constraints=["N % 2 == 0"])
def half_dot(
    x: In[Tensor, "float16", "M", "N", Align(4)],
    y: In[Tensor, "float16", "M", "N", Align(4)],
    z: Out[Tensor, "float32", "M"],
) -> Tensor:
    """Computes the sum of x[m, n] * y[m, n] for each row m, or 0 if it is not finite.

    Parameters
    ----------
    x, y : (M, N) float16, row-major, N even

    Returns
    -------
    z : (M,) float32
    """
    return (x.float() * y.float()).sum(-1)
