"""Matrix products: gemm; matmul for any strides and batches; linear and gated_linear for layers with activations."""

import tkjit
from tkjit import CExpr, In, Member, Out, Scratch, Strided, Tensor, Zero

# With few tiles and a large K, several blocks share a tile, and each adds up a part of K: see gemm_split.cuh. There are
# then at most 132 blocks, the number of multiprocessors of an H100. B is the number of matrices. The tiles are those of
# gemm_hopper.cuh; SPLIT_SUMS and SPLIT_TILES are enough for the tiles of gemm_tile.cuh as well.
SPLIT_BATCH = {
    "IS_WIDE": "(M > 64) * (B * cdiv(M, 128) * cdiv(N, 256) > 66)",
    "TILES": "max(1, B * cdiv(M, 64 + 64 * (M > 64)) * cdiv(N, 128 + 128 * IS_WIDE))",
    "SPLITS": "max(1, min(132 // TILES, K // 1024))",
    "SPLIT_SUMS": "(SPLITS > 1) * SPLITS * B * cdiv(M, 128) * cdiv(N, 256) * 32768",
    "SPLIT_TILES": "(SPLITS > 1) * B * cdiv(M, 64) * cdiv(N, 128)",
}
SPLIT = SPLIT_BATCH | {"B": "1"}

TYPES = ("float32", "bfloat16", "float16")
ACTIVATIONS = ("identity", "relu", "gelu", "gelu_tanh", "silu")

# chosen by `tkjit tune`: a ring of at most 192 KiB, of the 227 KiB of Hopper's shared memory
TUNE = {"STAGES": (4, 3, 5, 6), "TILE_N": (256, 128)}
RING_FITS = "STAGES * (128 + TILE_N) <= 1536"
LAUNCH = {
    "block": CExpr("Launch<T>::threads"),
    "shared_memory": CExpr("Launch<T>::shared_bytes"),
    "computed": {"splits": "SPLITS"},
}


def cublas(a, b):
    return a @ b


# matmul needs no copies, but a package of gemm would then contain all variants of matmul as well
def gradients(grad_c, a, b, needed):
    grad_a = gemm(grad_c, b.T.contiguous()) if "a" in needed else None
    grad_b = gemm(a.T.contiguous(), grad_c) if "b" in needed else None
    return grad_a, grad_b


@tkjit.kernel(
    "gemm.cu",
    archs={"90a": "gemm_90a.cu"},
    entry="gemm<T>",
    struct="Problem<T>",
    grid=CExpr("Launch<T>::blocks(M, N, SPLITS)"),
    dims=SPLIT,
    fields="a b sums finished splits c",
    variants={"T": TYPES},
    tune=TUNE,
    constraints=RING_FITS,
    backward=gradients,
    flops="2 * M * N * K",
    sizes=[
        {"M": 1024, "N": 1024, "K": 1024},
        {"M": 2048, "N": 2048, "K": 2048},
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 16, "N": 4096, "K": 14336},
        {"M": 128, "N": 4096, "K": 14336},
    ],
    peers={"cuBLAS": cublas},
    **LAUNCH,
)
def gemm(
    a: In[Tensor, "T", "M", "K"],
    b: In[Tensor, "T", "K", "N"],
    sums: Scratch[Tensor, "float32", "SPLIT_SUMS", Member("partial.sums")],
    finished: Scratch[Tensor, "int32", "SPLIT_TILES", Member("partial.finished"), Zero],
    c: Out[Tensor, "T", "M", "N"],
) -> Tensor:
    """Computes a @ b, summed in float32.

    Parameters
    ----------
    a : (M, K) float32, bfloat16 or float16, row-major
    b : (K, N) of a's dtype, row-major

    Returns
    -------
    c : (M, N) of a's dtype

    Notes
    -----
    On Hopper, ``gemm_90a.cu`` is used instead; it uses TMA and wgmma. Source of the layouts of mma.sync, ldmatrix and
    wgmma: PTX ISA, "Warp Level Matrix Instructions" and "Asynchronous Warpgroup Level Matrix Instructions".
    """
    return a @ b


# 1 if the matrix is stored by columns. A single column is stored as one row, which TMA can copy.
STORED = {
    "TA": "(a.stride(-2) == 1) * max(a.stride(-1) != 1, K == 1)",
    "TB": "(b.stride(-2) == 1) * max(b.stride(-1) != 1, N == 1)",
}


def rounded_to_tf32(x):
    import torch

    rounded = ((x.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)
    return torch.where(x.isfinite(), rounded, x)


def reference_matmul(a, b, c, alpha, beta, precision):
    import torch

    if precision == "tf32" and a.dtype == torch.float32:
        a, b = rounded_to_tf32(a), rounded_to_tf32(b)
    if c is None:
        return alpha * (a @ b)
    return (torch.addmm if a.dim() == 2 else torch.baddbmm)(c, a, b, alpha=alpha, beta=beta)


def torch_matmul(a, b, c, alpha, beta, precision):
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        return reference_matmul(a, b, c, alpha, beta, "ieee")
    finally:
        torch.set_float32_matmul_precision(before)


def matmul_gradients(grad_d, a, b, c, alpha, beta, precision, needed):
    grad_a = matmul(grad_d, b.mT, alpha=alpha, precision=precision) if "a" in needed else None
    grad_b = matmul(a.mT, grad_d, alpha=alpha, precision=precision) if "b" in needed else None
    return grad_a, grad_b, beta * grad_d if c is not None and "c" in needed else None


MATMUL = {
    "archs": {"90a": "matmul_90a.cu"},
    "block": CExpr("Launch<precision<T>, TA, TB>::threads"),
    "shared_memory": CExpr("Launch<precision<T>, TA, TB>::shared_bytes"),
    "computed": {"splits": "SPLITS"},
    "fields": "a b c alpha beta sums finished splits d",
    "variants": {"T": TYPES, "precision": ("ieee", "tf32"), "TA": (0, 1), "TB": (0, 1)},
    "tune": TUNE,
    "constraints": RING_FITS,
}


@tkjit.kernel(
    "matmul.cu",
    entry="matmul<precision<T>, TA, TB, 2>",
    struct="Problem<precision<T>, TA, TB, 2>",
    grid=CExpr("Launch<precision<T>, TA, TB>::blocks(M, N, SPLITS)"),
    dims=SPLIT | STORED,
    backward=matmul_gradients,
    flops="2 * M * N * K",
    sizes=[{"M": 4096, "N": 4096, "K": 4096}, {"M": 128, "N": 4096, "K": 14336}],
    peers={"torch": torch_matmul},
    **MATMUL,
)
def matmul(
    a: In[Strided, "T", "M", "K"],
    b: In[Strided, "T", "K", "N"],
    c: In[Strided, "T", "M", "N", Member("addend")] | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    precision: str = "ieee",
    *,
    sums: Scratch[Tensor, "float32", "SPLIT_SUMS", Member("partial.sums")],
    finished: Scratch[Tensor, "int32", "SPLIT_TILES", Member("partial.finished"), Zero],
    d: Out[Tensor, "T", "M", "N", Member("c")],
) -> Tensor:
    """Computes alpha * a @ b + beta * c, summed in float32, for matrices with any strides, or for a batch of them.

    Parameters
    ----------
    a : (M, K) or (B, M, K) float32, bfloat16 or float16
    b : (K, N) or (B, K, N) of a's dtype
    c : (M, N) or (B, M, N) of a's dtype, optional
        It may be a vector that is expanded to a matrix.
    alpha, beta : float
    precision : "ieee" or "tf32"
        Whether float32 is multiplied as such, or rounded to the ten bits of mantissa that tensor cores multiply. Has no
        effect on other dtypes.

    Returns
    -------
    d : (M, N) or (B, M, N) of a's dtype

    Notes
    -----
    The method is that of `gemm`. The elements of a row or of a column of `a` and `b` should be adjacent, and their
    addresses and other strides multiples of 16 bytes. TMA cannot copy other matrices, so their product takes longer.
    Views such as (B, H, M, K) have to be flattened to one batch dimension. On Hopper, tf32 is fastest if the elements
    along K are adjacent in both matrices, as in ``x @ weight.T``.
    """
    return reference_matmul(a, b, c, alpha, beta, precision)


@matmul.overload(
    "matmul.cu",
    entry="matmul<precision<T>, TA, TB, 3>",
    struct="Problem<precision<T>, TA, TB, 3>",
    grid=CExpr("Launch<precision<T>, TA, TB>::blocks(M, N, SPLITS, B)"),
    dims=SPLIT_BATCH | STORED,
    backward=matmul_gradients,
    flops="2 * B * M * N * K",
    sizes=[{"B": 64, "M": 1024, "N": 1024, "K": 128}, {"B": 16, "M": 2048, "N": 2048, "K": 2048}],
    peers={"torch": torch_matmul},
    **MATMUL,
)
def matmul(
    a: In[Strided, "T", "B", "M", "K"],
    b: In[Strided, "T", "B", "K", "N"],
    c: In[Strided, "T", "B", "M", "N", Member("addend")] | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    precision: str = "ieee",
    *,
    sums: Scratch[Tensor, "float32", "SPLIT_SUMS", Member("partial.sums")],
    finished: Scratch[Tensor, "int32", "SPLIT_TILES", Member("partial.finished"), Zero],
    d: Out[Tensor, "T", "B", "M", "N", Member("c")],
) -> Tensor:
    """Computes alpha * a @ b + beta * c for each matrix of a batch."""
    return reference_matmul(a, b, c, alpha, beta, precision)


def activated(x, activation):
    import torch

    F = torch.nn.functional
    functions = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}
    return functions.get(activation, lambda x: x)(x)


def gradient_of_activated(grad_y, x, activation):
    import torch

    aten = torch.ops.aten
    functions = {
        "relu": lambda: aten.threshold_backward(grad_y, x, 0),
        "gelu": lambda: aten.gelu_backward(grad_y, x),
        "gelu_tanh": lambda: aten.gelu_backward(grad_y, x, approximate="tanh"),
        "silu": lambda: aten.silu_backward(grad_y, x),
    }
    return functions.get(activation, lambda: grad_y)()


def torch_linear(x, weight, bias, activation):
    import torch

    return activated(torch.nn.functional.linear(x, weight, bias), activation)


def linear_gradients(grad_y, x, weight, bias, activation, needed):
    if activation != "identity":
        grad_y = gradient_of_activated(grad_y, linear(x, weight, bias), activation)
    grad = grad_y.reshape(-1, weight.shape[0])
    grad_x = gemm(grad, weight).view(x.shape) if "x" in needed else None
    grad_weight = matmul(grad.T, x.reshape(-1, x.shape[-1])) if "weight" in needed else None
    grad_bias = grad.float().sum(0).to(bias.dtype) if bias is not None and "bias" in needed else None
    return grad_x, grad_weight, grad_bias


@tkjit.kernel(
    "linear.cu",
    archs={"90a": "linear_90a.cu"},
    entry="linear<T, activation>",
    struct="Layer<T>",
    grid=CExpr("Launch<T>::blocks(M, N, SPLITS)"),
    dims=SPLIT | {"M": "x.batch * x.depth * x.rows"},
    fields="x weight sums finished splits y bias",
    variants={"T": TYPES, "activation": ACTIVATIONS},
    tune=TUNE,
    constraints=RING_FITS,
    backward=linear_gradients,
    flops="2 * M * N * K",
    sizes=[
        {"...": (4096,), "N": 4096, "K": 4096},
        {"...": (8192,), "N": 14336, "K": 4096},
        {"...": (16,), "N": 14336, "K": 4096},
        {"...": (128,), "N": 4096, "K": 14336},
    ],
    peers={"torch": torch_linear},
    **LAUNCH,
)
def linear(
    x: In[Tensor, "T", "... K", Member("a")],
    weight: In[Tensor, "T", "N", "K", Member("b")],
    bias: In[Tensor, "T", "N"] | None = None,
    activation: str = "identity",
    *,
    sums: Scratch[Tensor, "float32", "SPLIT_SUMS", Member("partial.sums")],
    finished: Scratch[Tensor, "int32", "SPLIT_TILES", Member("partial.finished"), Zero],
    y: Out[Tensor, "T", "... N", Member("c")],
) -> Tensor:
    """Computes f(x @ weight.T + bias), summed in float32.

    Parameters
    ----------
    x : (..., K) float32, bfloat16 or float16
    weight : (N, K) of x's dtype
    bias : (N,) of x's dtype, optional
    activation : "identity", "relu", "gelu", "gelu_tanh" or "silu"
        The function f, computed in float32.

    Returns
    -------
    y : (..., N) of x's dtype
    """
    wide = (None if one is None else one.float() for one in (x, weight, bias))
    return torch_linear(*wide, activation).to(x.dtype)


def torch_gated_linear(x, gate, up, gate_bias, up_bias, activation):
    import torch

    return torch_linear(x, gate, gate_bias, activation) * torch.nn.functional.linear(x, up, up_bias)


def gated_linear_gradients(grad_y, x, gate, up, gate_bias, up_bias, activation, needed):
    gated, factor = linear(x, gate, gate_bias), linear(x, up, up_bias)
    grad_up = (grad_y * activated(gated, activation)).view(-1, up.shape[0])
    grad_gate = gradient_of_activated(grad_y * factor, gated, activation).view(-1, gate.shape[0])
    grad_x = matmul(grad_up, up, gemm(grad_gate, gate)).view(x.shape) if "x" in needed else None
    rows = x.view(-1, x.shape[-1])
    grads = [grad_x]
    grads += [matmul(grad.T, rows) if name in needed else None for name, grad in (("gate", grad_gate), ("up", grad_up))]
    for name, bias, grad in (("gate_bias", gate_bias, grad_gate), ("up_bias", up_bias, grad_up)):
        grads.append(grad.float().sum(0).to(bias.dtype) if bias is not None and name in needed else None)
    return tuple(grads)


# as SPLIT, for the columns of two products
SPLIT_PAIR = {
    "TILES": "max(1, cdiv(M, 64 + 64 * (M > 64)) * cdiv(N, 128))",
    "SPLITS": "max(1, min(132 // TILES, K // 1024))",
    "SPLIT_SUMS": "(SPLITS > 1) * SPLITS * cdiv(M, 128) * cdiv(N, 128) * 32768",
    "SPLIT_TILES": "(SPLITS > 1) * cdiv(M, 64) * cdiv(N, 64)",
    "M": "x.batch * x.depth * x.rows",
}


@tkjit.kernel(
    "gated_linear.cu",
    archs={"90a": "gated_linear_90a.cu"},
    entry="gated_linear<T, activation>",
    struct="Layer<T>",
    grid=CExpr("Launch<T>::blocks(M, 2 * N, SPLITS)"),
    dims=SPLIT_PAIR,
    fields="x gate up sums finished splits y gate_bias up_bias",
    variants={"T": TYPES, "activation": ACTIVATIONS},
    tune={"STAGES": (4, 3)},
    backward=gated_linear_gradients,
    flops="4 * M * N * K",
    sizes=[
        {"...": (8192,), "N": 14336, "K": 4096},
        {"...": (16,), "N": 14336, "K": 4096},
        {"...": (4096,), "N": 4096, "K": 4096},
    ],
    peers={"torch": torch_gated_linear},
    **LAUNCH,
)
def gated_linear(
    x: In[Tensor, "T", "... K", Member("a")],
    gate: In[Tensor, "T", "N", "K", Member("b")],
    up: In[Tensor, "T", "N", "K"],
    gate_bias: In[Tensor, "T", "N"] | None = None,
    up_bias: In[Tensor, "T", "N"] | None = None,
    activation: str = "silu",
    *,
    sums: Scratch[Tensor, "float32", "SPLIT_SUMS", Member("partial.sums")],
    finished: Scratch[Tensor, "int32", "SPLIT_TILES", Member("partial.finished"), Zero],
    y: Out[Tensor, "T", "... N", Member("c")],
) -> Tensor:
    """Computes f(x @ gate.T + gate_bias) * (x @ up.T + up_bias), summed in float32: a SwiGLU layer, for example.

    Parameters
    ----------
    x : (..., K) float32, bfloat16 or float16
    gate, up : (N, K) of x's dtype
        They may be the halves of one tensor: ``gated_linear(x, *weight.chunk(2))``.
    gate_bias, up_bias : (N,) of x's dtype, optional
    activation : "silu", "gelu", "gelu_tanh", "relu" or "identity"
        The function f, computed in float32.

    Returns
    -------
    y : (..., N) of x's dtype

    Notes
    -----
    One pass over x computes both products, which are never in global memory. Source: Shazeer, "GLU Variants Improve
    Transformer", 2020.
    """
    wide = (None if one is None else one.float() for one in (x, gate, up, gate_bias, up_bias))
    return torch_gated_linear(*wide, activation).to(x.dtype)
