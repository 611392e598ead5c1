"""The largest elements of each row, with sorted lists in local arrays."""

import torch

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel("top_k.cu", entry="top_k", grid="cdiv(M, 32)", block=32, constraints=["N >= 4"])
def top_k(
    x: In[Tensor, "float32", "M", "N"],
    values: Out[Tensor, "float32", "M", "4"],
    indices: Out[Tensor, "int32", "M", "4"],
) -> tuple[Tensor, Tensor]:
    """Returns the four largest elements of each row, the largest first, and their columns.

    Parameters
    ----------
    x : (M, N) float32, row-major, N >= 4

    Returns
    -------
    values : (M, 4) float32
    indices : (M, 4) int32
    """
    values, indices = x.topk(4, -1)
    return values, indices.to(torch.int32)
