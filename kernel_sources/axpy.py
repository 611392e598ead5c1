"""alpha * x + y: the hello world of kernels."""

import tkjit
from tkjit import In, InOut, Tensor


@tkjit.kernel(
    "axpy.cu",
    entry="axpy<T>",
    grid="cdiv(N, 256)",
    block=256,
    variants={"T": ("float32", "bfloat16", "float16")},
)
def axpy(x: In[Tensor, "T", "N"], y: InOut[Tensor, "T", "N"], alpha: float = 1.0) -> Tensor:
    """Computes alpha * x + y in place.

    Parameters
    ----------
    x : (N,) float32, bfloat16 or float16
    y : (N,) of x's dtype; overwritten and returned
    alpha : the factor of x
    """
    return y.add_(x, alpha=alpha)
