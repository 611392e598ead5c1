"""Normalisation of rows: rms_norm and layer_norm, and both for a sum with a residual."""

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
ROWS = {"block": BLOCK, "variants": {"T": DTYPES, "SIZE": SIZES}, "examples": EXAMPLES, "sizes": CALLS}


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
    used = x.new_ones(x.shape[-1]) if weight is None else weight
    grad_x, grad_weight = rms_norm_gradient(grad_y, x, used, eps=eps)
    return grad_x, grad_weight.sum(0).to(weight.dtype) if weight is not None and "weight" in needed else None


@tkjit.kernel(
    "rms_norm.cu",
    entry="rms_norm<T, SIZE>",
    grid=GRID,
    dims={"SIZE": SIZE},
    backward=rms_norm_gradients,
    peers={"torch": torch_rms_norm, "QuACK": quack_rms_norm},
    **ROWS,
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
    grad, grad_weight = rms_norm_gradient(grad_y, total, weight, grad_total, eps)
    return (
        grad if "x" in needed else None,
        grad if "residual" in needed else None,
        grad_weight.sum(0).to(weight.dtype) if "weight" in needed else None,
    )


@tkjit.kernel(
    "add_rms_norm.cu",
    entry="add_rms_norm<T, SIZE>",
    grid=GRID,
    dims={"SIZE": SIZE},
    backward=add_rms_norm_gradients,
    peers={"torch": torch_add_rms_norm, "QuACK": quack_add_rms_norm},
    **ROWS,
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
    used = x.new_ones(x.shape[-1]) if weight is None else weight
    grad_x, grad_weight, grad_bias = layer_norm_gradient(grad_y, x, used, eps=eps)
    return (
        grad_x,
        grad_weight.sum(0).to(weight.dtype) if weight is not None and "weight" in needed else None,
        grad_bias.sum(0).to(bias.dtype) if bias is not None and "bias" in needed else None,
    )


@tkjit.kernel(
    "layer_norm.cu",
    entry="layer_norm<T, SIZE>",
    grid=GRID,
    dims={"SIZE": SIZE},
    backward=layer_norm_gradients,
    **ROWS,
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


def torch_add_layer_norm(x, residual, weight, bias, eps):
    import torch

    total = x + residual
    return torch.nn.functional.layer_norm(total, x.shape[-1:], weight, bias, eps), total


def add_layer_norm_gradients(grad_y, grad_total, total, weight, bias, eps, needed):
    used = total.new_ones(total.shape[-1]) if weight is None else weight
    grad, grad_weight, grad_bias = layer_norm_gradient(grad_y, total, used, grad_total, eps)
    return (
        grad if "x" in needed else None,
        grad if "residual" in needed else None,
        grad_weight.sum(0).to(weight.dtype) if weight is not None and "weight" in needed else None,
        grad_bias.sum(0).to(bias.dtype) if bias is not None and "bias" in needed else None,
    )


@tkjit.kernel(
    "add_layer_norm.cu",
    entry="add_layer_norm<T, SIZE>",
    grid=GRID,
    dims={"SIZE": SIZE},
    backward=add_layer_norm_gradients,
    **ROWS,
)
def add_layer_norm(
    x: In[Tensor, "T", "... N"],
    residual: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"] | None = None,
    bias: In[Tensor, "T", "N"] | None = None,
    eps: float = 1e-5,
    *,
    y: Out[Tensor, "T", "... N"],
    total: Out[Tensor, "T", "... N"],
) -> tuple[Tensor, Tensor]:
    """Computes total = x + residual, and the layer normalisation of total.

    Parameters
    ----------
    x, residual : (..., N) float32, bfloat16 or float16
    weight, bias : (N,) of x's dtype, optional
    eps : added to the variance

    Returns
    -------
    y : (..., N) of x's dtype; as ``layer_norm(total, weight, bias, eps)``
    total : (..., N) of x's dtype; the residual of the next layer
    """
    return torch_add_layer_norm(x, residual, weight, bias, eps)


# PARTS blocks share the rows; each of their PARTS * WORKERS blocks or warps adds up a part of the weight's gradient
GRADIENT_DIMS = {
    "SIZE": SIZE,
    "WORKERS": "1 + 3 * (SIZE <= 1024)",
    "PARTS": "min(cdiv(x.batch * x.depth * x.rows, WORKERS), 132 * (1 + 2 * (SIZE <= 4096)))",
}


def sums_of_parts(terms):
    """Returns the sums of the rows that each block or warp computes."""
    import torch

    rows = terms.reshape(-1, terms.shape[-1])
    workers = 4 if rows.shape[1] <= 1024 else 1
    parts = workers * min(-(-rows.shape[0] // workers), 396 if rows.shape[1] <= 4096 else 132)
    padding = -rows.shape[0] % max(1, parts)
    return torch.nn.functional.pad(rows, (0, 0, 0, padding)).unflatten(0, (-1, parts)).sum(0)


@tkjit.kernel(
    "rms_norm_gradient.cu",
    entry="rms_norm_gradient<T, SIZE>",
    grid="PARTS",
    dims=GRADIENT_DIMS,
    **ROWS,
)
def rms_norm_gradient(
    grad_y: In[Tensor, "T", "... N"],
    x: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"],
    addend: In[Tensor, "T", "... N"] | None = None,
    eps: float = 1e-6,
    *,
    grad_x: Out[Tensor, "T", "... N"],
    grad_weight: Out[Tensor, "float32", "PARTS * WORKERS", "N"],
) -> tuple[Tensor, Tensor]:
    """Computes the gradients of ``rms_norm``.

    Parameters
    ----------
    grad_y, x : (..., N) float32, bfloat16 or float16
    weight : (N,) of x's dtype
    addend : (..., N) of x's dtype, optional
        Added to the gradient of x.
    eps : as for ``rms_norm``

    Returns
    -------
    grad_x : (..., N) of x's dtype
    grad_weight : (parts, N) float32
        The sum over each block's or warp's rows. The gradient is the sum over the first dim.

    Notes
    -----
    ``norm_gradient.cuh`` explains the method.
    """
    wide, grad = x.float(), grad_y.float()
    scale = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    normal, of_normal = wide * scale, grad * weight.float()
    grad_x = scale * (of_normal - normal * (of_normal * normal).mean(-1, keepdim=True))
    grad_x = grad_x if addend is None else grad_x + addend.float()
    return grad_x.to(x.dtype), sums_of_parts(grad * normal)


@tkjit.kernel(
    "layer_norm_gradient.cu",
    entry="layer_norm_gradient<T, SIZE>",
    grid="PARTS",
    dims=GRADIENT_DIMS,
    **ROWS,
)
def layer_norm_gradient(
    grad_y: In[Tensor, "T", "... N"],
    x: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"],
    addend: In[Tensor, "T", "... N"] | None = None,
    eps: float = 1e-5,
    *,
    grad_x: Out[Tensor, "T", "... N"],
    grad_weight: Out[Tensor, "float32", "PARTS * WORKERS", "N"],
    grad_bias: Out[Tensor, "float32", "PARTS * WORKERS", "N"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients of ``layer_norm``.

    Parameters
    ----------
    grad_y, x : (..., N) float32, bfloat16 or float16
    weight : (N,) of x's dtype
    addend : (..., N) of x's dtype, optional
        Added to the gradient of x.
    eps : as for ``layer_norm``

    Returns
    -------
    grad_x : (..., N) of x's dtype
    grad_weight, grad_bias : (parts, N) float32
        The sums over each block's or warp's rows. The gradients are the sums over the first dim.

    Notes
    -----
    ``norm_gradient.cuh`` explains the method.
    """
    wide, grad = x.float(), grad_y.float()
    centered = wide - wide.mean(-1, keepdim=True)
    scale = (centered.square().mean(-1, keepdim=True) + eps).rsqrt()
    normal, of_normal = centered * scale, grad * weight.float()
    of_mean = of_normal.mean(-1, keepdim=True)
    grad_x = scale * (of_normal - of_mean - normal * (of_normal * normal).mean(-1, keepdim=True))
    grad_x = grad_x if addend is None else grad_x + addend.float()
    return grad_x.to(x.dtype), sums_of_parts(grad * normal), sums_of_parts(grad)
