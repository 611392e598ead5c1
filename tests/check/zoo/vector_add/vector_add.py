"""Adds vectors with vector loads and a ragged end."""

import tkjit
from tkjit import Align, In, Out, Tensor


@tkjit.kernel("vector_add.cu", entry="vector_add", grid="cdiv(N, 4 * 64)", block=64)
def vector_add(
    a: In[Tensor, "float32", "N", Align(16)],
    b: In[Tensor, "float32", "N", Align(16)],
    c: Out[Tensor, "float32", "N", Align(16)],
) -> Tensor:
    """Computes a + b.

    Parameters
    ----------
    a, b : (N,) float32, aligned to 16 bytes

    Returns
    -------
    c : (N,) float32
    """
    return a + b
