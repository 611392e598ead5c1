"""A kernel whose template arguments are an enumerator and a type from its source."""

from __future__ import annotations

import tkjit
from tkjit import CExpr, In, Out, Tensor

SOURCE = """
#include <tkjit/gl.h>
namespace ops { enum class Mode { add, multiply }; }
template <int Size> struct Tile { static constexpr int threads = Size; };
struct Whole { static constexpr int threads = 256; };

template <ops::Mode mode, class Policy, class T>
__global__ void combine(const __grid_constant__ Globals g) {
    for (int i = threadIdx.x; i < g.x.cols(); i += Policy::threads)
        g.y[i] = mode == ops::Mode::add ? T(g.x[i] + T(Policy::threads)) : T(g.x[i] * T(Policy::threads));
}
"""


@tkjit.kernel(
    SOURCE,
    entry="combine<mode, policy, T>",
    grid=1,
    block=CExpr("policy::threads"),
    variants={
        "T": ("float32", "float64"),
        "mode": ("ops::Mode::add", "ops::Mode::multiply"),
        "policy": ("Tile<32>", "Whole"),
    },
)
def combine(
    x: In[Tensor, "T", "N"],
    y: Out[Tensor, "T", "N"],
    mode: str = "ops::Mode::add",
    policy: str = "Whole",
) -> Tensor:
    """Combine x with the policy's number of threads."""
    threads = 256 if policy == "Whole" else 32
    return x + threads if mode.endswith("add") else x * threads
