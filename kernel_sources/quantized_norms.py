"""Normalisation of rows with a result of 8-bit floats, which ``scaled_matmul`` takes."""

import tkjit
from tkjit import In, Out, Tensor

# as in norms.py
SIZES = (256, 1024, 4096, 16384, 65536)
SIZE = "256 * (1 + 3 * (N > 256) + 12 * (N > 1024) + 48 * (N > 4096) + 192 * (N > 16384))"
DIMS = {"SIZE": SIZE, "BLOCKS": "cdiv(N, 128)"}
VARIANTS = {"T": ("bfloat16", "float16", "float32"), "SIZE": SIZES}
GRID = "cdiv(x.batch * x.depth * x.rows, 1 + 3 * (SIZE <= 1024))"
BLOCK = "128 + 128 * (SIZE > 1024) + 256 * (SIZE > 4096) + 512 * (SIZE > 16384)"
EXAMPLES = [
    {"...": (3, 2), "N": 37},
    {"...": (5,), "N": 1000},
    {"...": (2,), "N": 3001},
    {"...": (2,), "N": 8200},
    {"...": (), "N": 20001},
]
# in `bench`: the rows of some language models, of a batch and of a few sequences in decoding
CALLS = [
    {"...": (16384,), "N": 4096},
    {"...": (16384,), "N": 2048},
    {"...": (8192,), "N": 7168},
    {"...": (4096,), "N": 16384},
    {"...": (16,), "N": 4096},
]

COMMON = {"grid": GRID, "block": BLOCK, "dims": DIMS, "examples": EXAMPLES, "sizes": CALLS}


def with_positive_scale(arguments):
    return {"scale": abs(arguments["scale"]) + 0.01}


def rounded(values, scale):
    import torch

    return (values / scale).clamp(-448, 448).to(torch.float8_e4m3fn)


def scales_of(values):
    largest = values.abs().nan_to_num(0.0, posinf=3.4028234e38).amax(-1)
    return largest.clamp(min=1e-10) / 448


def with_row_scales(values):
    scales = scales_of(values)
    return rounded(values, scales[..., None]), scales


def with_block_scales(values):
    import torch

    n = values.shape[-1]
    blocks = torch.nn.functional.pad(values, (0, -n % 128)).unflatten(-1, (-1, 128))
    y, scales = with_row_scales(blocks)
    return y.flatten(-2)[..., :n], scales


def wide_rms_norm(x, weight, eps):
    import torch

    return torch.nn.functional.rms_norm(x.float(), x.shape[-1:], None if weight is None else weight.float(), eps)


def vllm_rms_norm(x, weight, eps):
    import torch
    from vllm import _custom_ops

    return _custom_ops.rms_norm_dynamic_per_token_quant(x, weight, eps, torch.float8_e4m3fn)


def wide_layer_norm(x, weight, bias, eps):
    import torch

    weight, bias = (None if one is None else one.float() for one in (weight, bias))
    return torch.nn.functional.layer_norm(x.float(), x.shape[-1:], weight, bias, eps)


@tkjit.kernel(
    "rms_norm_fp8.cu",
    entry="rms_norm_fp8<T, SIZE, ScalePerRow>",
    variants=VARIANTS,
    peers={"vLLM": vllm_rms_norm},
    **COMMON,
)
def rms_norm_fp8(
    x: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"] | None = None,
    eps: float = 1e-6,
    *,
    y: Out[Tensor, "float8_e4m3fn", "... N"],
    scales: Out[Tensor, "float32", "..."],
) -> tuple[Tensor, Tensor]:
    """Computes rms_norm(x, weight, eps) as 8-bit floats y and their scales: the result is about y * scales.

    By default, each row has a scale. ``rms_norm_fp8(x, weight, block_size=128)`` computes a scale for each 128 elements
    of a row, so `scales` is (..., ceil(N / 128)). ``rms_norm_fp8(x, weight, scale=s)`` divides by the one element of s,
    and returns y alone. If x is a matrix, ``scaled_matmul`` takes y with each of these scales.

    Parameters
    ----------
    x : (..., N) bfloat16, float16 or float32; computed in float32
    weight : (N,) of x's dtype, optional
    eps : added to the mean square

    Returns
    -------
    y : (..., N) float8_e4m3fn
    scales : (...) float32

    Notes
    -----
    A scale is the largest absolute value, at least 1e-10, divided by 448, the largest number of the format. If you pass
    the scale, quotients beyond 448 become 448. NaN stays NaN, and does not count for the scale. A row of up to 16384
    elements is read once. There are no gradients. Sources: Zhang and Sennrich, "Root Mean Square Layer Normalization",
    2019; DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3.
    """
    return with_row_scales(wide_rms_norm(x, weight, eps))


@rms_norm_fp8.overload(
    "rms_norm_fp8.cu",
    entry="rms_norm_fp8<T, SIZE, GivenScale>",
    variants=VARIANTS,
    prepare=with_positive_scale,
    **COMMON,
)
def rms_norm_fp8(
    x: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"] | None = None,
    eps: float = 1e-6,
    *,
    scale: In[Tensor, "float32", 1],
    y: Out[Tensor, "float8_e4m3fn", "... N"],
) -> Tensor:
    """Computes rms_norm(x, weight, eps) as 8-bit floats with a given scale."""
    return rounded(wide_rms_norm(x, weight, eps), scale)


@rms_norm_fp8.overload(
    "rms_norm_fp8.cu",
    entry="rms_norm_fp8<T, SIZE, ScalePerBlock>",
    variants=VARIANTS | {"block_size": (128,)},
    **COMMON,
)
def rms_norm_fp8(
    x: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"] | None = None,
    eps: float = 1e-6,
    *,
    block_size: int,
    y: Out[Tensor, "float8_e4m3fn", "... N"],
    scales: Out[Tensor, "float32", "... BLOCKS"],
) -> tuple[Tensor, Tensor]:
    """Computes rms_norm(x, weight, eps) as 8-bit floats with a scale for each 128 elements of a row."""
    return with_block_scales(wide_rms_norm(x, weight, eps))


@tkjit.kernel(
    "add_rms_norm_fp8.cu",
    entry="add_rms_norm_fp8<T, SIZE, ScalePerRow>",
    variants=VARIANTS,
    **COMMON,
)
def add_rms_norm_fp8(
    x: In[Tensor, "T", "... N"],
    residual: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"],
    eps: float = 1e-6,
    *,
    y: Out[Tensor, "float8_e4m3fn", "... N"],
    scales: Out[Tensor, "float32", "..."],
    total: Out[Tensor, "T", "... N"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes total = x + residual, and ``rms_norm_fp8(total, weight, eps)``.

    The options are those of ``rms_norm_fp8``: ``block_size=128`` or ``scale=s``.

    Parameters
    ----------
    x, residual : (..., N) bfloat16, float16 or float32
    weight : (N,) of x's dtype
    eps : added to the mean square

    Returns
    -------
    y : (..., N) float8_e4m3fn
    scales : (...) float32
    total : (..., N) of x's dtype; the residual of the next layer
    """
    total = x + residual
    return *with_row_scales(wide_rms_norm(total, weight, eps)), total


@add_rms_norm_fp8.overload(
    "add_rms_norm_fp8.cu",
    entry="add_rms_norm_fp8<T, SIZE, GivenScale>",
    variants=VARIANTS,
    prepare=with_positive_scale,
    **COMMON,
)
def add_rms_norm_fp8(
    x: In[Tensor, "T", "... N"],
    residual: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"],
    eps: float = 1e-6,
    *,
    scale: In[Tensor, "float32", 1],
    y: Out[Tensor, "float8_e4m3fn", "... N"],
    total: Out[Tensor, "T", "... N"],
) -> tuple[Tensor, Tensor]:
    """Computes x + residual, and its RMS normalisation as 8-bit floats with a given scale."""
    total = x + residual
    return rounded(wide_rms_norm(total, weight, eps), scale), total


@add_rms_norm_fp8.overload(
    "add_rms_norm_fp8.cu",
    entry="add_rms_norm_fp8<T, SIZE, ScalePerBlock>",
    variants=VARIANTS | {"block_size": (128,)},
    **COMMON,
)
def add_rms_norm_fp8(
    x: In[Tensor, "T", "... N"],
    residual: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"],
    eps: float = 1e-6,
    *,
    block_size: int,
    y: Out[Tensor, "float8_e4m3fn", "... N"],
    scales: Out[Tensor, "float32", "... BLOCKS"],
    total: Out[Tensor, "T", "... N"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes x + residual, and its RMS normalisation as 8-bit floats with a scale for each 128 elements of a row."""
    total = x + residual
    return *with_block_scales(wide_rms_norm(total, weight, eps)), total


@tkjit.kernel(
    "layer_norm_fp8.cu",
    entry="layer_norm_fp8<T, SIZE, ScalePerRow>",
    variants=VARIANTS,
    **COMMON,
)
def layer_norm_fp8(
    x: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"] | None = None,
    bias: In[Tensor, "T", "N"] | None = None,
    eps: float = 1e-5,
    *,
    y: Out[Tensor, "float8_e4m3fn", "... N"],
    scales: Out[Tensor, "float32", "..."],
) -> tuple[Tensor, Tensor]:
    """Computes layer_norm(x, weight, bias, eps) as 8-bit floats y and their scales: the result is about y * scales.

    The options are those of ``rms_norm_fp8``: ``block_size=128`` or ``scale=s``.

    Parameters
    ----------
    x : (..., N) bfloat16, float16 or float32; computed in float32
    weight, bias : (N,) of x's dtype, optional
    eps : added to the variance

    Returns
    -------
    y : (..., N) float8_e4m3fn
    scales : (...) float32
    """
    return with_row_scales(wide_layer_norm(x, weight, bias, eps))


@layer_norm_fp8.overload(
    "layer_norm_fp8.cu",
    entry="layer_norm_fp8<T, SIZE, GivenScale>",
    variants=VARIANTS,
    prepare=with_positive_scale,
    **COMMON,
)
def layer_norm_fp8(
    x: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"] | None = None,
    bias: In[Tensor, "T", "N"] | None = None,
    eps: float = 1e-5,
    *,
    scale: In[Tensor, "float32", 1],
    y: Out[Tensor, "float8_e4m3fn", "... N"],
) -> Tensor:
    """Computes layer_norm(x, weight, bias, eps) as 8-bit floats with a given scale."""
    return rounded(wide_layer_norm(x, weight, bias, eps), scale)


@layer_norm_fp8.overload(
    "layer_norm_fp8.cu",
    entry="layer_norm_fp8<T, SIZE, ScalePerBlock>",
    variants=VARIANTS | {"block_size": (128,)},
    **COMMON,
)
def layer_norm_fp8(
    x: In[Tensor, "T", "... N"],
    weight: In[Tensor, "T", "N"] | None = None,
    bias: In[Tensor, "T", "N"] | None = None,
    eps: float = 1e-5,
    *,
    block_size: int,
    y: Out[Tensor, "float8_e4m3fn", "... N"],
    scales: Out[Tensor, "float32", "... BLOCKS"],
) -> tuple[Tensor, Tensor]:
    """Computes layer_norm(x, weight, bias, eps) as 8-bit floats with a scale for each 128 elements of a row."""
    return with_block_scales(wide_layer_norm(x, weight, bias, eps))
