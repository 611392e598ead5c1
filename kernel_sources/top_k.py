"""The largest elements of rows."""

import tkjit
from tkjit import In, Out, Tensor


def torch_top_k(x, k):
    return x.topk(k)


def gradient(grad_values, x, indices):
    import torch

    return torch.zeros_like(x).scatter(-1, indices, grad_values)


@tkjit.kernel(
    "top_k.cu",
    entry="top_k<T>",
    grid="x.batch * x.depth * x.rows",
    block="32 * min(32, max(1, cdiv(N, 64 + 192 * (N > 1024))))",
    variants={"T": ("float32", "bfloat16", "float16")},
    constraints=["k >= 1", "k <= 1024", "k <= N"],
    backward=gradient,
    examples=[{"...": (2, 3), "N": 37, "k": 5}, {"...": (2,), "N": 5000, "k": 300}],
    sizes=[
        {"...": (16384,), "N": 256, "k": 8},
        {"...": (16384,), "N": 4096, "k": 64},
        {"...": (128,), "N": 128256, "k": 50},
    ],
    peers={"torch": torch_top_k},
)
def top_k(
    x: In[Tensor, "T", "... N"],
    k: int,
    *,
    values: Out[Tensor, "T", "... k"],
    indices: Out[Tensor, "int64", "... k"],
) -> tuple[Tensor, Tensor]:
    """Finds the k largest elements along the last dimension.

    Parameters
    ----------
    x : (..., N) float32, bfloat16 or float16
    k : int
        At most N, and at most 1024: they are sorted in shared memory.

    Returns
    -------
    values : (..., k) of x's dtype
        From the largest to the smallest. NaN counts as larger than all numbers.
    indices : (..., k) int64
        Their indices. Of equal elements, the ones with lower indices are chosen, and come first.
    """
    import torch

    values, indices = torch.sort(x, dim=-1, descending=True, stable=True)
    return values[..., :k], indices[..., :k]
