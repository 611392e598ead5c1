"""Rows of a table."""

import tkjit
from tkjit import In, Out, Tensor


def with_rows_of_the_table(arguments):
    return {"index": arguments["index"] % arguments["weight"].shape[0]}


def gradient(grad_y, index, weight):
    import torch

    grad = torch.zeros_like(weight, dtype=torch.float32)
    return grad.index_add_(0, index.reshape(-1), grad_y.reshape(-1, weight.shape[1]).float()).to(weight.dtype)


@tkjit.kernel(
    "embedding.cu",
    entry="embedding<T>",
    grid="cdiv(index.numel * cdiv(D, 8), 256)",
    block=256,
    variants={"T": ("float32", "bfloat16", "float16")},
    backward=gradient,
    examples=[{"...": (2, 3), "V": 10, "D": 70}, {"...": (40,), "V": 5, "D": 64}],
    sizes=[
        {"...": (16384,), "V": 128256, "D": 4096},
        {"...": (1048576,), "V": 1000000, "D": 64},
        {"...": (16384,), "V": 50257, "D": 767},
        {"...": (64,), "V": 128256, "D": 4096},
    ],
    prepare=with_rows_of_the_table,
)
def embedding(
    index: In[Tensor, "int64", "..."], weight: In[Tensor, "T", "V", "D"], y: Out[Tensor, "T", "... D"]
) -> Tensor:
    """Looks up rows of a table: weight[index].

    Parameters
    ----------
    index : (...) int64
        An index outside 0 ... V - 1 gives a row of NaN.
    weight : (V, D) float32, bfloat16 or float16

    Returns
    -------
    y : (..., D) of weight's dtype
    """
    return weight[index.long()]
