"""The activation of the hidden layer."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel("relu.cu", entry="relu<T>", grid="cdiv(x.numel, 256)", block=256, variants={"T": ("float32", "bfloat16")})
def relu(x: In[Tensor, "T", "..."], y: Out[Tensor, "T", "..."]) -> Tensor:
    """Computes max(x, 0).

    Parameters
    ----------
    x : of any shape; float32 or bfloat16

    Returns
    -------
    y : of x's shape and dtype
    """
    return x.relu()
