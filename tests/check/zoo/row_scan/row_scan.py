"""Prefix sums of rows: scans in warps through shared memory, and a carry between the parts of a row."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel("row_scan.cu", entry="row_scan", grid="M", block=128)
def row_scan(x: In[Tensor, "float32", "M", "N"], y: Out[Tensor, "float32", "M", "N"]) -> Tensor:
    """Computes x[m, 0] + ... + x[m, n].

    Parameters
    ----------
    x : (M, N) float32, row-major

    Returns
    -------
    y : (M, N) float32
    """
    return x.cumsum(-1)
