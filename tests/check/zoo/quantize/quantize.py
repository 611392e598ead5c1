"""Quantises rows to int8, with bytes and a float's bits in one allocation of dynamic shared memory."""

import torch

import tkjit
from tkjit import Align, In, Out, Tensor


@tkjit.kernel("quantize.cu", entry="quantize", grid="M", block=64, shared_memory="N + 4", constraints=["N % 4 == 0"])
def quantize(
    x: In[Tensor, "float32", "M", "N"],
    y: Out[Tensor, "int8", "M", "N", Align(4)],
    scale: Out[Tensor, "float32", "M"],
) -> tuple[Tensor, Tensor]:
    """Computes round(x[m, n] / scale[m]), where scale[m] maps the row's largest magnitude to 127.

    Parameters
    ----------
    x : (M, N) float32, row-major, N a multiple of 4

    Returns
    -------
    y : (M, N) int8
    scale : (M,) float32
    """
    scale = x.abs().amax(-1) / 127
    return torch.where(scale[:, None] > 0, (x / scale[:, None]).round(), 0).to(torch.int8), scale
