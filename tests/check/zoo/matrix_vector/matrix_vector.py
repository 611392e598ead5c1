"""Matrix-vector product with one warp per row."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel(
    "matrix_vector.cu",
    entry="matrix_vector",
    grid="cdiv(M, 8)",
    block=(32, 8),
    variants={"T": ("float32", "bfloat16")},
)
def matrix_vector(a: In[Tensor, "T", "M", "K"], x: In[Tensor, "T", "K"], y: Out[Tensor, "float32", "M"]) -> Tensor:
    """Computes a @ x, with sums in float32.

    Parameters
    ----------
    a : (M, K) float32 or bfloat16, row-major
    x : (K,), with a's dtype

    Returns
    -------
    y : (M,) float32
    """
    return a.float() @ x.float()
