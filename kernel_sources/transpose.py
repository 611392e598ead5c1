"""Transposed matrices."""

import tkjit
from tkjit import In, Out, Tensor


def gradient(grad_y):
    return grad_y.mT.contiguous()


@tkjit.kernel(
    "transpose.cu",
    entry="transpose<T>",
    grid="x.batch * x.depth * cdiv(M, 64) * cdiv(N, 64)",
    block=256,
    variants={"T": ("float32", "bfloat16", "float16")},
    backward=gradient,
    examples=[{"...": (2, 3), "M": 70, "N": 130}, {"...": (), "M": 1, "N": 9}],
    sizes=[
        {"...": (), "M": 16384, "N": 4096},
        {"...": (), "M": 8191, "N": 8191},
        {"...": (256,), "M": 512, "N": 512},
        {"...": (65536,), "M": 32, "N": 32},
    ],
)
def transpose(x: In[Tensor, "T", "... M N"], y: Out[Tensor, "T", "... N M"]) -> Tensor:
    """Copies x with its last two dimensions exchanged.

    Parameters
    ----------
    x : (..., M, N) float32, bfloat16 or float16

    Returns
    -------
    y : (..., N, M) of x's dtype

    Notes
    -----
    Source of the method: Ruetsch and Micikevicius, "Optimizing Matrix Transpose in CUDA", 2009.
    """
    return x.mT.contiguous()
