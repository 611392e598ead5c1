"""Reverses rows of 256 in shared memory, and stores them with bulk copies."""

import tkjit
from tkjit import Align, In, Out, Tensor


@tkjit.kernel("reverse_rows.cu", entry="reverse_rows", grid="R", block=256)
def reverse_rows(x: In[Tensor, "float32", "R", 256], y: Out[Tensor, "float32", "R", 256, Align(16)]) -> Tensor:
    """Reverses each row of x."""
    return x.flip(-1)
