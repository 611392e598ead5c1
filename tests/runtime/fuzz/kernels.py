"""Small host functions for the fuzz test, with their expected results. They run without the simulator."""

from __future__ import annotations

import torch

import tkjit
from tkjit import In, InOut, Out, Tensor

T = {"T": ("float32", "float64")}

MIX = """
template <class T> void mix(Globals g) {
    const int rows = g.x.rows(), cols = g.x.cols();
    for (int i = 0; i < rows; ++i) g.acc[i] += T(g.count);
    for (int k = 0; k < cols; ++k) g.y[k] = g.flag ? g.x[k] : T(0);
    for (int i = 0; i < rows * cols; ++i) g.z[i] = T(g.alpha) * g.x[i] + (g.bias ? T(g.bias[i % cols]) : T(0));
}
"""


@tkjit.kernel(MIX, entry="mix<T>", host=True, variants=T, constraints="M < 50", backward=None)
def mix(
    x: In[Tensor, "T", "M", "N"],
    acc: InOut[Tensor, "T", "M"],
    bias: In[Tensor, "float32", "N"] | None = None,
    alpha: float = 1.0,
    count: int = 1,
    flag: bool = False,
    *,
    y: Out[Tensor, "T", "N"] = None,
    z: Out[Tensor, "T", "M", "N"] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    z = alpha * x + (0 if bias is None else bias.to(x.dtype))
    return acc + count, x[0] * (1.0 if flag else 0.0), z


TOTAL = """
template <class T> void total(Globals g) {
    for (int k = 0; k < g.y.cols(); ++k) {
        g.y[k] = 0;
        for (int i = 0; i < int(g.xs.size()) && i < int(g.weights.size()); ++i) g.y[k] += T(g.weights[i]) * g.xs[i][k];
    }
}
"""


@tkjit.kernel(TOTAL, entry="total<T>", host=True, variants=T)
def total(xs: In[list[Tensor], "T", "N"], weights: list[float], y: Out[Tensor, "T", "N"]) -> Tensor:
    return sum(weight * x for weight, x in zip(weights, xs, strict=True))


def gradient(grad_z, x, y):
    return grad_z * y, grad_z * x


PRODUCT = "template <class T> void product(Globals g) { for (int i = 0; i < g.x.cols(); ++i) g.z[i] = g.x[i] * {}; }"


@tkjit.kernel(PRODUCT.replace("{}", "g.y[i]"), entry="product<T>", host=True, variants=T, backward=gradient)
def product(x: In[Tensor, "T", "N"], y: In[Tensor, "T", "N"], z: Out[Tensor, "T", "N"]) -> Tensor:
    return x * y


@product.overload(PRODUCT.replace("{}", "T(g.y)"), entry="product<T>", host=True, variants=T)
def product(x: In[Tensor, "T", "N"], y: float, z: Out[Tensor, "T", "N"]) -> Tensor:
    return x * y


def reference(name: str, arguments: dict[str, object]) -> tuple[torch.Tensor, ...]:
    """Return the expected results of a call."""
    made = {"mix": mix, "total": total, "product": product}[name].reference(**arguments)
    return made if isinstance(made, tuple) else (made,)
