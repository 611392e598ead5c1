"""Reverses rows and clears masked elements; bytes and floats share the dynamic shared memory."""

import torch

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel(
    "masked_mirror.cu",
    entry="masked_mirror",
    grid="R",
    block=128,
    shared_memory="cdiv(N, 4) * 4 + 4 * N",  # the mask, followed by the row
    constraints="N <= 8192",
)
def masked_mirror(
    x: In[Tensor, "float32", "R", "N"], keep: In[Tensor, "uint8", "R", "N"], y: Out[Tensor, "float32", "R", "N"]
) -> Tensor:
    """Sets y[:, i] to x[:, N - 1 - i] if keep[:, N - 1 - i], and to 0 otherwise."""
    return torch.where(keep.flip(-1) != 0, x.flip(-1), 0.0)
