"""Sums of squares of 4096 neighbours each, which come through a ring of three tiles by cp.async."""

import torch

import tkjit
from tkjit import Align, In, Out, Tensor


@tkjit.kernel("segment_energy.cu", entry="segment_energy", grid="P", block=64, dims={"P": "cdiv(N, 4096)"})
def segment_energy(x: In[Tensor, "float32", "N", Align(16)], y: Out[Tensor, "float32", "P"]) -> Tensor:
    """y[i] <- sum(x[4096 * i : 4096 * (i + 1)] ** 2)"""
    return torch.nn.functional.pad(x, (0, -len(x) % 4096)).view(-1, 4096).square().sum(-1)
