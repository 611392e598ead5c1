"""Normalisation of rows: layer_norm, rms_norm, and add_rms_norm for a sum with a residual."""

import tkjit
from tkjit import In, Out, Tensor

# the variants of tkjit::Row, and its launch
SIZES = (256, 1024, 4096, 16384, 65536)
SIZE = "256 * (1 + 3 * (N > 256) + 12 * (N > 1024) + 48 * (N > 4096) + 192 * (N > 16384))"
GRID = "cdiv(x.batch * x.depth * x.rows, 1 + 3 * (SIZE <= 1024))"
BLOCK = "128 + 128 * (SIZE > 1024) + 256 * (SIZE > 4096) + 512 * (SIZE > 16384)"
DTYPES = ("float32", "bfloat16", "float16")
# in `check` and `verify`: each variant, with rows that are not a multiple of 16 bytes
EXAMPLES = [
    {"...": (3, 2), "N": 37},
    {"...": (5,), "N": 1000},
    {"...": (2,), "N": 3001},
    {"...": (2,), "N": 8200},
    {"...": (), "N": 20001},
]
# in `bench`: one usual size first, then short, long, odd and few rows
CALLS = [
    {"...": (16384,), "N": 4096},
    {"...": (65536,), "N": 256},
    {"...": (32768,), "N": 1024},
    {"...": (4096,), "N": 16384},
    {"...": (2048,), "N": 32768},
    {"...": (1024,), "N": 65536},
    {"...": (256,), "N": 262144},
    {"...": (16384,), "N": 4095},
    {"...": (128,), "N": 4096},
]


def torch_rms_norm(x, weight, eps):
    import torch

    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def quack_rms_norm(x, weight, eps):
    from quack import rmsnorm

    return rmsnorm(x, weight, eps=eps)


def quack_add_rms_norm(x, residual, weight, eps):
    from quack import rmsnorm

    return rmsnorm(x, weight, residual=residual, eps=eps, prenorm=True)


def rms_norm_gradients(grad_y, x, weight, eps, needed):
    import torch

    wide, grad = x.float(), grad_y.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    scaled = wide * scale
    grad_weight = None
    if weight is not None:
        if "weight" in needed:
            grad_weight = (grad * scaled).reshape(-1, x.shape[-1]).sum(0).to(weight.dtype)
        grad = grad * weight.float()
    grad_x = (scale * (grad - scaled * (grad * scaled).mean(-1, keepdim=True))).to(x.dtype) if "x" in needed else None
    return grad_x, grad_weight


@tkjit.kernel(
    "rms_norm.cu",
    entry="rms_norm<T, SIZE>",
    grid=GRID,
    block=BLOCK,
    dims={"SIZE": SIZE},
    variants={"T": DTYPES, "SIZE": SIZES},
    backward=rms_norm_gradients,
    examples=EXAMPLES,
    sizes=CALLS,
    peers={"torch": torch_rms_norm, "QuACK": quack_rms_norm},
)
def rms_norm(
    x: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"] | None = None,
    eps: float = 1e-6,
    *,
    y: Out[Tensor, "T", "... N"],
) -> Tensor:
    """Computes x / sqrt(mean(x^2) + eps) * weight along the last dimension.

    Parameters
    ----------
    x : (..., N) float32, bfloat16 or float16; computed in float32
    weight : (N,) of x's dtype, optional
    eps : added to the mean square

    Returns
    -------
    y : (..., N) of x's dtype

    Notes
    -----
    A row of up to 16384 elements is read once; ``tkjit/row.cuh`` explains how. Source: Zhang and Sennrich, "Root Mean
    Square Layer Normalization", 2019.
    """
    return torch_rms_norm(x, weight, eps)


def torch_add_rms_norm(x, residual, weight, eps):
    total = x + residual
    return torch_rms_norm(total, weight, eps), total


def add_rms_norm_gradients(grad_y, grad_total, total, weight, eps, needed):
    wanted = {"x"} | ({"weight"} & set(needed))
    grad, grad_weight = rms_norm_gradients(grad_y, total, weight, eps, wanted)
    grad = grad + grad_total
    return grad if "x" in needed else None, grad if "residual" in needed else None, grad_weight


@tkjit.kernel(
    "add_rms_norm.cu",
    entry="add_rms_norm<T, SIZE>",
    grid=GRID,
    block=BLOCK,
    dims={"SIZE": SIZE},
    variants={"T": DTYPES, "SIZE": SIZES},
    backward=add_rms_norm_gradients,
    examples=EXAMPLES,
    sizes=CALLS,
    peers={"torch": torch_add_rms_norm, "QuACK": quack_add_rms_norm},
)
def add_rms_norm(
    x: In[Tensor, "T", "... N"],
    residual: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"],
    eps: float = 1e-6,
    *,
    y: Out[Tensor, "T", "... N"],
    total: Out[Tensor, "T", "... N"],
) -> tuple[Tensor, Tensor]:
    """Computes total = x + residual, and the RMS normalisation of total.

    Parameters
    ----------
    x, residual : (..., N) float32, bfloat16 or float16
    weight : (N,) of x's dtype
    eps : added to the mean square

    Returns
    -------
    y : (..., N) of x's dtype; as ``rms_norm(total, weight, eps)``
    total : (..., N) of x's dtype; the residual of the next layer
    """
    return torch_add_rms_norm(x, residual, weight, eps)


def layer_norm_gradients(grad_y, x, weight, bias, eps, needed):
    import torch

    wide, grad = x.float(), grad_y.float()
    centered = wide - wide.mean(-1, keepdim=True)
    scale = torch.rsqrt(centered.square().mean(-1, keepdim=True) + eps)
    scaled = centered * scale
    grad_weight = grad_bias = None
    if bias is not None and "bias" in needed:
        grad_bias = grad.reshape(-1, x.shape[-1]).sum(0).to(bias.dtype)
    if weight is not None:
        if "weight" in needed:
            grad_weight = (grad * scaled).reshape(-1, x.shape[-1]).sum(0).to(weight.dtype)
        grad = grad * weight.float()
    grad_x = None
    if "x" in needed:
        grad_x = grad - grad.mean(-1, keepdim=True) - scaled * (grad * scaled).mean(-1, keepdim=True)
        grad_x = (scale * grad_x).to(x.dtype)
    return grad_x, grad_weight, grad_bias


@tkjit.kernel(
    "layer_norm.cu",
    entry="layer_norm<T, SIZE>",
    grid=GRID,
    block=BLOCK,
    dims={"SIZE": SIZE},
    variants={"T": DTYPES, "SIZE": SIZES},
    backward=layer_norm_gradients,
    examples=EXAMPLES,
    sizes=CALLS,
)
def layer_norm(
    x: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"] | None = None,
    bias: In[Tensor, "T", "N"] | None = None,
    eps: float = 1e-5,
    *,
    y: Out[Tensor, "T", "... N"],
) -> Tensor:
    """Computes (x - mean(x)) / sqrt(var(x) + eps) * weight + bias along the last dimension.

    Parameters
    ----------
    x : (..., N) float32, bfloat16 or float16; computed in float32
    weight, bias : (N,) of x's dtype, optional
    eps : added to the variance

    Returns
    -------
    y : (..., N) of x's dtype

    Notes
    -----
    The variance is the mean of (x - mean(x))^2, in a second pass over the row. A row of up to 16384 elements is in
    registers by then; ``tkjit/row.cuh`` explains how. Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.
    """
    import torch

    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)
