"""The gated activation between the linear layers of many transformers."""

import tkjit
from tkjit import In, Out, Tensor

CALLS = [
    {"...": (8192,), "N": 14336},
    {"...": (65536,), "N": 1024},
    {"...": (8192,), "N": 11007},
    {"...": (16,), "N": 14336},
]


def gradients(grad_y, gate, up):
    x, grad = gate.float(), grad_y.float()
    sigmoid = x.sigmoid()
    grad_gate = grad * up.float() * sigmoid * (1 + x * (1 - sigmoid))
    return grad_gate.to(gate.dtype), (grad * x * sigmoid).to(up.dtype)


def packed_gradient(grad_y, x):
    import torch

    return torch.cat(gradients(grad_y, *x.chunk(2, -1)), -1)


def torch_silu_mul(gate, up):
    import torch

    return torch.nn.functional.silu(gate) * up


def torch_packed_silu_mul(x):
    return torch_silu_mul(*x.chunk(2, -1))


@tkjit.kernel(
    "silu_mul.cu",
    entry="silu_mul<T>",
    grid="gate.batch * gate.depth * gate.rows, cdiv(N, 2048)",
    block=256,
    variants={"T": ("float32", "bfloat16", "float16")},
    backward=gradients,
    sizes=CALLS,
    peers={"torch": torch_silu_mul},
)
def silu_mul(gate: In[Tensor, "T", "... N"], up: In[Tensor, "T", "... N"], y: Out[Tensor, "T", "... N"]) -> Tensor:
    """Computes gate / (1 + exp(-gate)) * up.

    Instead of two tensors, a call can pass one: ``silu_mul(x)``, with `gate` and `up` as the halves of its rows.

    Parameters
    ----------
    gate, up : (..., N) float32, bfloat16 or float16; computed in float32

    Returns
    -------
    y : (..., N) of gate's dtype
    """
    return torch_silu_mul(gate.float(), up.float()).to(gate.dtype)


@silu_mul.overload(
    "silu_mul_packed.cu",
    entry="silu_mul<T>",
    grid="x.batch * x.depth * x.rows, cdiv(N, 2048)",
    block=256,
    dims={"N": "W // 2"},
    variants={"T": ("float32", "bfloat16", "float16")},
    constraints="W % 2 == 0",
    backward=packed_gradient,
    sizes=[{"...": (8192,), "W": 28672}, {"...": (16,), "W": 28672}],
    peers={"torch": torch_packed_silu_mul},
)
def silu_mul(x: In[Tensor, "T", "... W"], y: Out[Tensor, "T", "... N"]) -> Tensor:
    """Computes gate / (1 + exp(-gate)) * up for the halves of each row.

    Parameters
    ----------
    x : (..., 2 N) float32, bfloat16 or float16; first `gate`, then `up`

    Returns
    -------
    y : (..., N) of x's dtype
    """
    return torch_packed_silu_mul(x.float()).to(x.dtype)
