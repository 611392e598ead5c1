"""Two specs for a third-party source: its kernel and its host function."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel("foreign.cu", entry="reverse_rows", args=True, grid="R", block=128, shared_memory="4 * n", fields="x y n")
def kernel(x: In[Tensor, "float32", "R", "n"], n: int, y: Out[Tensor, "float32", "R", "n"]) -> Tensor:
    """Reverse each row of x."""
    return x.flip(1)


@tkjit.kernel("foreign.cu", entry="reverse", args=True, host=True, fields="x y rows n")
def host(
    x: In[Tensor, "float32", "rows", "n"],
    rows: int,
    n: int,
    y: Out[Tensor, "float32", "rows", "n"],
) -> Tensor:
    """Reverse each row of x through the program's own launch."""
    return x.flip(1)
