"""Matrix product on Hopper: tensor maps load tiles, and wgmma multiplies them."""

import torch

import tkjit
from tkjit import Align, In, Out, Tensor


@tkjit.kernel(
    "gemm_wgmma.cu",
    entry="gemm_wgmma",
    struct="Problem",
    grid="cdiv(N, 64), cdiv(M, 64)",
    block=256,
    constraints=["K % 8 == 0"],  # a tensor map's rows are multiples of 16 bytes
)
def gemm_wgmma(
    a: In[Tensor, "bfloat16", "M", "K", Align(16)],
    b: In[Tensor, "bfloat16", "N", "K", Align(16)],
    c: Out[Tensor, "bfloat16", "M", "N"],
) -> Tensor:
    """Computes a @ b.T.

    Parameters
    ----------
    a : (M, K) bfloat16, K a multiple of 8
    b : (N, K) bfloat16

    Returns
    -------
    c : (M, N) bfloat16
    """
    return torch.matmul(a, b.T)
