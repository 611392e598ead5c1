"""Sums short rows with tiles of cooperative groups."""

import torch

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel("segment_sums.cu", entry="segment_sums", grid="B", block=64, dims={"B": "cdiv(M, 4)"})
def segment_sums(
    x: In[Tensor, "float32", "M", "N"],
    sums: Out[Tensor, "float32", "M"],
    largest: Out[Tensor, "float32", "B"],
) -> tuple[Tensor, Tensor]:
    """Computes the sum of each row, and the largest sum of every four rows.

    Parameters
    ----------
    x : (M, N) float32, row-major

    Returns
    -------
    sums : (M,) float32
    largest : (B,) float32
    """
    sums = x.sum(-1)
    padded = torch.nn.functional.pad(sums, (0, -sums.numel() % 4), value=-float("inf"))
    return sums, padded.view(-1, 4).amax(-1)
