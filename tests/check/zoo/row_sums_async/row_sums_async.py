"""Row sums: two warps, with cp.async copies that arrive at mbarriers."""

import tkjit
from tkjit import Align, In, Out, Tensor


@tkjit.kernel("row_sums_async.cu", entry="row_sums_async", grid="M", block=64, constraints=["N % 4 == 0"])
def row_sums_async(x: In[Tensor, "float32", "M", "N", Align(16)], y: Out[Tensor, "float32", "M"]) -> Tensor:
    """Computes the sum of each row.

    Parameters
    ----------
    x : (M, N) float32, row-major, N a multiple of 4

    Returns
    -------
    y : (M,) float32
    """
    return x.sum(-1)
