"""Softmax along the last dimension, with a block reduction by shuffles and static shared memory."""

import tkjit
from tkjit import In, Out, Tensor


def gradient(grad_y, y):
    return y * (grad_y - (grad_y * y).sum(-1, keepdim=True))


@tkjit.kernel(
    "softmax.cu",
    entry="softmax<T>",
    grid="x.batch * x.depth * x.rows",
    block=256,
    variants={"T": ("float32", "bfloat16", "float16")},
    backward=gradient,
    sizes=[
        {"...": (16384,), "N": 4096},
        {"...": (65536,), "N": 256},
        {"...": (2048,), "N": 32768},
        {"...": (16384,), "N": 4095},
    ],
)
def softmax(x: In[Tensor, "T", "... N"], y: Out[Tensor, "T", "... N"]) -> Tensor:
    """Computes exp(x - max(x)) / sum(exp(x - max(x))) along the last dimension.

    Parameters
    ----------
    x : (..., N) float32, bfloat16 or float16; computed in float32

    Returns
    -------
    y : (..., N) of x's dtype; each row sums to 1
    """
    return x.softmax(-1)
