"""Rotary position embedding, in place."""

import torch

import tkjit
from tkjit import In, InOut, Tensor


@tkjit.kernel("rotary.cu", entry="rotary", grid="S", block=64)
def rotary(
    x: InOut[Tensor, "float32", "S", "H", "2 * F"],
    cosine: In[Tensor, "float32", "S", "F"],
    sine: In[Tensor, "float32", "S", "F"],
) -> Tensor:
    """Rotates the pairs (x[s, h, f], x[s, h, f + F]) by the angles of row s.

    Parameters
    ----------
    x : (S, H, 2 F) float32: positions, heads; overwritten and returned
    cosine, sine : (S, F) float32, for each position and frequency
    """
    first, second = x.chunk(2, -1)
    c, s = cosine[:, None], sine[:, None]
    return x.copy_(torch.cat([first * c - second * s, second * c + first * s], -1))
