"""Counts of the lowest six bits: atomics in shared memory, then in global memory."""

import torch

import tkjit
from tkjit import In, InOut, Tensor


@tkjit.kernel("histogram.cu", entry="histogram", grid="min(cdiv(N, 64), 4)", block=64)
def histogram(x: In[Tensor, "int32", "N"], total: InOut[Tensor, "int32", "64"]) -> Tensor:
    """Adds to total[b] the number of elements of x whose lowest six bits are b.

    Parameters
    ----------
    x : (N,) int32
    total : (64,) int32; updated in place, and returned
    """
    return total.add_(torch.bincount((x & 63).long(), minlength=64).to(torch.int32))
