"""Kernels whose names, parameters and docstrings clash with C++, Go or Rust, or differ only in case."""

from __future__ import annotations

import tkjit
from tkjit import In, InOut, MaxLength, Out, Tensor

F32 = "float32"
COPY = "__global__ void f(Globals g) { g.y[threadIdx.x] = g.x[threadIdx.x]; }"


def _copies(entry: str, x: str, y: str) -> str:
    return f"__global__ void {entry}(Globals g) {{ g.{y}[threadIdx.x] = g.{x}[threadIdx.x]; }}"


@tkjit.kernel(_copies("f", "A", "Y"), entry="f", grid=1, block="N")
def xor(A: In[Tensor, F32, "N"], a: In[Tensor, F32, "N"], Y: Out[Tensor, F32, "N"]) -> Tensor:
    """Y <- A: all of src/*.cu, and */ too, ``` and a path\\"""


@tkjit.kernel(_copies("f", "r", "done"), entry="f", grid=1, block="N")
def match(
    r: In[Tensor, F32, "N"],
    err: In[Tensor, F32, "N"],
    ctx: In[Tensor, F32, "N"],
    string: float,
    func: int,
    x_1: float,
    x1: float,
    c_r: float,
    stream_: float,
    *,
    done: Out[Tensor, F32, "N"],
    done_handle: Out[Tensor, F32, "N"],
) -> tuple[Tensor, Tensor]:
    """done <- r, for the last line: \\"""


@tkjit.kernel(
    "__global__ void f(Globals g) { for (const auto& x : g.xs) if (x) x[threadIdx.x] += 1; }",
    entry="f",
    grid=1,
    block="N",
)
def mod(xs: InOut[list[Tensor | None], F32, "N", MaxLength(3)], xs_in_c: list[int] = (1, 2)) -> None:
    """xs <- xs + 1"""


ALL = (xor, match, mod)
