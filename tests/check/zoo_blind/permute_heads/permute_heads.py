"""Permutes (batch, step, head, d) to (batch, head, step, d), the layout of attention's inputs."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel(
    "permute_heads.cu", entry="permute_heads<T>", grid="B * H * S", block=64, variants={"T": ("float32", "int8")}
)
def permute_heads(x: In[Tensor, "T", "B", "S", "H", "D"], y: Out[Tensor, "T", "B", "H", "S", "D"]) -> Tensor:
    """Swaps the steps and the heads of x."""
    return x.transpose(1, 2)
