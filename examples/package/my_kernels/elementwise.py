"""Elementwise kernels. Each has its own source, because its ``Globals`` are rendered from its parameters."""

import tkjit
import torch
from tkjit import In, Out, Tensor

FLOATS = ("float32", "float16", "bfloat16")


@tkjit.kernel("silu_mul.cu", entry="silu_mul<T>", grid="cdiv(gate.numel, 256)", block=256, variants={"T": FLOATS})
def silu_mul(gate: In[Tensor, "T", "... N"], up: In[Tensor, "T", "... N"], y: Out[Tensor, "T", "... N"]) -> Tensor:
    """Computes silu(gate) * up."""
    return torch.nn.functional.silu(gate) * up


@tkjit.kernel("squared_relu.cu", entry="squared_relu<T>", grid="cdiv(x.numel, 256)", block=256, variants={"T": FLOATS})
def squared_relu(x: In[Tensor, "T", "..."], y: Out[Tensor, "T", "..."]) -> Tensor:
    """Computes max(x, 0)^2."""
    return x.relu() ** 2
