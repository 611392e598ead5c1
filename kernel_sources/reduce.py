"""Reductions of rows."""

import tkjit
from tkjit import In, Out, Scratch, Tensor, Zero


def torch_reduction(x, op):
    import torch

    return getattr(torch, op)(x, -1)


def gradient(grad_y, x, y, op):
    grad = grad_y[..., None]
    if op == "sum":
        return grad.expand_as(x)
    if op == "mean":
        return (grad / x.shape[-1]).expand_as(x)
    ties = x == y[..., None]
    return grad * ties / ties.sum(-1, keepdim=True)


@tkjit.kernel(
    "reduce.cu",
    entry="reduce<T, op>",
    grid="ROWS * SPLITS",
    block=256,
    # several blocks share a row if the rows are few and long, up to four for each multiprocessor of an H100
    dims={
        "ROWS": "x.batch * x.depth * x.rows",
        "SPLITS": "max(1, min(cdiv(N, 16384), 528 // max(1, ROWS)))",
        "PARTS": "(SPLITS > 1) * ROWS * SPLITS",
        "COUNTS": "(SPLITS > 1) * ROWS",
    },
    computed={"splits": "SPLITS"},
    fields="x parts finished splits y",
    variants={"T": ("float32", "bfloat16", "float16"), "op": ("sum", "mean", "amax", "amin")},
    constraints="N > 0",
    backward=gradient,
    examples=[{"...": (2, 3), "N": 37}, {"...": (2,), "N": 40001}],
    sizes=[
        {"...": (), "N": 67108864},
        {"...": (16384,), "N": 4096},
        {"...": (64,), "N": 1048576},
        {"...": (1024,), "N": 65535},
    ],
    peers={"torch": torch_reduction},
)
def reduce(
    x: In[Tensor, "T", "... N"],
    op: str = "sum",
    *,
    parts: Scratch[Tensor, "float32", "PARTS"],
    finished: Scratch[Tensor, "int32", "COUNTS", Zero],
    y: Out[Tensor, "T", "..."],
) -> Tensor:
    """Computes the sum, the mean, or the largest or smallest element along the last dimension.

    Parameters
    ----------
    x : (..., N) float32, bfloat16 or float16, with N > 0; computed in float32
    op : "sum", "mean", "amax" or "amin"
        amax and amin are NaN if an element is.

    Returns
    -------
    y : (...) of x's dtype

    Notes
    -----
    The result does not depend on the order in which blocks run. Equal largest or smallest elements share the gradient
    evenly.
    """
    return torch_reduction(x.float(), op).to(x.dtype)
