"""The largest elements of rows: sorted lists in local arrays."""

import torch

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel("top_k.cu", entry="top_k", grid="cdiv(M, 32)", block=32, variants={"K": (4,)}, constraints=["N >= K"])
def top_k(
    x: In[Tensor, "float32", "M", "N"],
    values: Out[Tensor, "float32", "M", "K"],
    indices: Out[Tensor, "int32", "M", "K"],
) -> tuple[Tensor, Tensor]:
    """The K largest elements of each row, the largest first, and their columns.

    Parameters
    ----------
    x : (M, N) float32, row-major, N >= K

    Returns
    -------
    values : (M, K) float32
    indices : (M, K) int32
    """
    values, indices = x.topk(4, -1)
    return values, indices.to(torch.int32)
