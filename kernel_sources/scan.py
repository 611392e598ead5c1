"""Prefix sums."""

import tkjit
from tkjit import In, Out, Scratch, Tensor, Zero


def torch_cumsum(x):
    return x.cumsum(-1)


def gradient(grad_y):
    return grad_y.flip(-1).cumsum(-1).flip(-1)


@tkjit.kernel(
    "scan.cu",
    entry="scan<T>",
    grid="x.batch * x.depth * x.rows * TILES",
    block="32 * min(8, max(1, cdiv(N, 256)))",
    dims={
        "TILES": "cdiv(N, 8192)",
        "STATES": "(TILES > 1) * (1 + x.batch * x.depth * x.rows * TILES)",
    },
    computed={"tiles": "TILES"},
    variants={"T": ("float32", "bfloat16", "float16", "int32")},
    backward=gradient,
    examples=[{"...": (2, 3), "N": 37}, {"...": (2,), "N": 20001}],
    sizes=[
        {"...": (), "N": 67108864},
        {"...": (16384,), "N": 4096},
        {"...": (65536,), "N": 512},
        {"...": (64,), "N": 1048575},
    ],
    peers={"torch": torch_cumsum},
)
def scan(
    x: In[Tensor, "T", "... N"], states: Scratch[Tensor, "int64", "STATES", Zero], y: Out[Tensor, "T", "... N"]
) -> Tensor:
    """Computes y[i] = x[0] + ... + x[i] along the last dimension.

    Parameters
    ----------
    x : (..., N) float32, bfloat16, float16 or int32
        Floating-point numbers are added in float32. Integers wrap around.

    Returns
    -------
    y : (..., N) of x's dtype

    Notes
    -----
    The order of additions depends on which blocks run first, so the sums of more than 8192 floating-point numbers can
    be rounded differently in each call. Source of the method: Merrill and Garland, "Single-pass Parallel Prefix Scan
    with Decoupled Look-back", 2016.
    """
    wide = x.float() if x.is_floating_point() else x
    return wide.cumsum(-1).to(x.dtype)
