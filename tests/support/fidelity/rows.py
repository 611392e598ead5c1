"""Kernels made from a table of expressions: row k of the result is expression k of every x, y and z."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from support.fidelity.case import Bound, Case, ulps

import tkjit
from tkjit import In, Out, Tensor

SOURCE = """
#include <cuda_fp8.h>
#include <tkjit/gl.h>
{definitions}
__global__ void {name}(const __grid_constant__ Globals g) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = g.xs.cols();
    if (i >= n) return;
    const {type} x = g.xs.raw_ptr[i], y = g.ys.raw_ptr[i], z = g.zs.raw_ptr[i];
    (void)x, (void)y, (void)z;
{rows}
}}
"""


@dataclass(frozen=True)
class Row:
    """A C++ expression of x, y and z, and its reference in NumPy, or None if another test compares the expression.

    ``simulator`` bounds the simulator's error against the reference. ``device`` bounds the difference between a device
    and the simulator: the device's documented error plus the simulator's.
    """

    expression: str
    reference: Callable[..., np.ndarray] | None = None
    simulator: Bound | None = None
    device: Bound | None = None


def table(
    name: str,
    dtype: str,
    rows: Sequence[Row],
    inputs: Callable[[np.random.Generator], Sequence[np.ndarray]],
    *,
    result: str | None = None,
    definitions: str = "",
) -> Case:
    """Make a case of all rows.

    ``inputs`` generates x, y and z; ``result`` is the dtype of the rows if it is not ``dtype``.
    """
    result = result or dtype
    types = {"int32": "int", "float32": "float", "float64": "double", "int64": "long long"}
    lines = [f"    g.results.raw_ptr[{k}ll * n + i] = {row.expression};" for k, row in enumerate(rows)]
    source = SOURCE.format(name=name, type=types[dtype], rows="\n".join(lines), definitions=definitions)

    def parameters(
        xs: In[Tensor, dtype, "N"],
        ys: In[Tensor, dtype, "N"],
        zs: In[Tensor, dtype, "N"],
        results: Out[Tensor, result, len(rows), "N"],
    ) -> Tensor: ...

    parameters.__name__ = parameters.__qualname__ = name
    kernel = tkjit.kernel(source, entry=name, grid="cdiv(N, 128)", block=128)(parameters)
    labels = [row.expression for row in rows]
    assert len(set(labels)) == len(labels)

    def expected(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> dict[str, np.ndarray]:
        arrays = x.numpy(), y.numpy(), z.numpy()
        into = np.dtype(result)
        with np.errstate(all="ignore"):
            return {row.expression: np.asarray(row.reference(*arrays)).astype(into) for row in rows if row.reference}

    return Case(
        name,
        kernel,
        lambda: tuple(torch.from_numpy(np.ascontiguousarray(a)) for a in inputs(np.random.default_rng(7))),
        lambda outputs: dict(zip(labels, outputs.numpy(), strict=True)),
        expected,
        {row.expression: row.simulator for row in rows if row.simulator},
        {row.expression: row.device for row in rows if row.device},
    )


__all__ = ["Row", "table", "ulps"]
