"""The most frequent label: elections among lanes, and a counter of blocks in a global variable."""

import torch

import tkjit
from tkjit import In, InOut, Out, Tensor


@tkjit.kernel("votes.cu", entry="votes", grid="cdiv(N, 64)", block=64)
def votes(
    labels: In[Tensor, "int32", "N"],
    counts: InOut[Tensor, "int32", "32"],
    winner: Out[Tensor, "int32", "1"],
) -> tuple[Tensor, Tensor]:
    """Adds to counts[b] the number of labels that are b modulo 32, and finds the label with the largest count.

    Parameters
    ----------
    labels : (N,) int32, not negative
    counts : (32,) int32; updated in place, and returned

    Returns
    -------
    counts : (32,) int32
    winner : (1,) int32, the lowest of labels with equal counts
    """
    counts.add_(torch.bincount(labels % 32, minlength=32).to(torch.int32))
    return counts, counts.argmax().to(torch.int32).view(1)
