"""Matrix product in float16: inline PTX for cp.async, ldmatrix and mma.sync."""

import tkjit
from tkjit import Align, In, Out, Tensor


@tkjit.kernel(
    "hgemm_ptx.cu",
    entry="hgemm_ptx",
    args=True,
    computed={"M": "M", "N": "N", "K": "K"},
    grid="cdiv(N, 32), cdiv(M, 32)",
    block=128,
    constraints=["K % 8 == 0"],  # rows start at multiples of 16 bytes, for the copies
)
def hgemm_ptx(
    a: In[Tensor, "float16", "M", "K", Align(16)],
    b: In[Tensor, "float16", "N", "K", Align(16)],
    c: Out[Tensor, "float16", "M", "N"],
) -> Tensor:
    """Computes a @ b.T.

    Parameters
    ----------
    a : (M, K) float16, row-major, K a multiple of 8
    b : (N, K) float16, row-major

    Returns
    -------
    c : (M, N) float16
    """
    return a @ b.T
