"""Stream compaction of rows: ballots, and counts in shared memory."""

import torch

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel("compact.cu", entry="compact", grid="M", block=128)
def compact(
    x: In[Tensor, "float32", "M", "N"],
    threshold: float = 0.0,
    *,
    y: Out[Tensor, "float32", "M", "N"],
    count: Out[Tensor, "int32", "M"],
) -> tuple[Tensor, Tensor]:
    """Moves each row's elements above a threshold to its front, and fills the rest with zeros.

    Parameters
    ----------
    x : (M, N) float32, row-major
    threshold : only larger elements are kept

    Returns
    -------
    y : (M, N) float32
    count : (M,) int32, the number of elements that were kept
    """
    keep = x > threshold
    order = keep.logical_not().to(torch.int8).argsort(dim=-1, stable=True)
    count = keep.sum(-1)
    moved = x.gather(-1, order)
    return moved.where(torch.arange(x.shape[-1]) < count[:, None], 0), count.to(torch.int32)
