"""Products of groups of rows with a matrix for each group, as in a mixture of experts."""

import tkjit
from tkjit import CExpr, In, Out, Strided, Tensor

DTYPES = ("float32", "bfloat16", "float16")
EXAMPLES = [
    {"M": 70, "K": 40, "N": 72, "E": 3},
    {"M": 300, "K": 64, "N": 136, "E": 2},
    {"M": 5, "K": 13, "N": 7, "E": 4},
]
SIZES = [
    {"M": 16384, "K": 4096, "N": 14336, "E": 8},
    {"M": 8192, "K": 2048, "N": 1536, "E": 128},
    {"M": 256, "K": 2048, "N": 1536, "E": 128},
]


def with_ends(arguments):
    import torch

    ends, rows = arguments["ends"], arguments["a"].shape[0]
    steps = torch.arange(1, len(ends) + 1, dtype=torch.int32, device=ends.device)
    return {
        "ends": rows * steps * steps // max(1, len(ends) ** 2) - rows // 8
    }  # with empty groups, and rows after the last


def groups_of(ends, rows):
    """Returns each group's rows as a slice, and last those after all groups."""
    slices, first = [], 0
    for end in [*ends.tolist(), rows]:
        end = min(rows, max(first, end))
        slices.append(slice(first, end))
        first = end
    return slices


def torch_grouped_mm(a, b, ends):
    import torch

    return torch._grouped_mm(a, b, ends)


def gradients(grad_c, a, b, ends, needed):
    grad_a = grouped_matmul(grad_c, b.mT, ends) if "a" in needed else None
    grad_b = grouped_matmul_gradient(grad_c, a, ends) if "b" in needed else None
    return grad_a, grad_b


@tkjit.kernel(
    "grouped_matmul.cu",
    archs={"90a": "grouped_matmul_90a.cu"},
    entry="grouped_matmul<T, TB>",
    struct="Problem<T, TB>",
    grid=CExpr("Launch<T, TB>::blocks(M, N, E)"),
    block=CExpr("Launch<T, TB>::threads"),
    shared_memory=CExpr("Launch<T, TB>::shared_bytes"),
    dims={"TB": "(b.stride(-2) == 1) * max(b.stride(-1) != 1, N == 1)"},  # as in gemm.py
    variants={"T": DTYPES, "TB": (0, 1)},
    tune={"STAGES": (4, 3, 5, 6), "TILE_N": (256, 128)},
    constraints="STAGES * (128 + TILE_N) <= 1536",
    backward=gradients,
    prepare=with_ends,
    flops="2 * M * N * K",
    examples=EXAMPLES,
    sizes=SIZES,
    peers={"_grouped_mm": torch_grouped_mm},
)
def grouped_matmul(
    a: In[Tensor, "T", "M", "K"],
    b: In[Strided, "T", "E", "K", "N"],
    ends: In[Tensor, "int32", "E"],
    c: Out[Tensor, "T", "M", "N"],
) -> Tensor:
    """Computes c[i] = a[i] @ b[group of i] for each row i, summed in float32.

    Parameters
    ----------
    a : (M, K) float32, bfloat16 or float16
        The rows of each group are adjacent, in the order of the groups.
    b : (E, K, N) of a's dtype
        A matrix for each of the E groups, with any strides; `matmul` describes which are fast.
    ends : (E,) int32
        The row after the last one of each group, so the group e has the rows from ``ends[e - 1]`` to before
        ``ends[e]``. A group is empty if its end does not exceed the one before.

    Returns
    -------
    c : (M, N) of a's dtype
        0 in the rows after the last group.
    """
    import torch

    parts = [a[rows].float() @ matrix.float() for rows, matrix in zip(groups_of(ends, a.shape[0]), b, strict=False)]
    rest = a.shape[0] - sum(map(len, parts))
    return torch.cat([*parts, a.new_zeros(rest, b.shape[2])]).to(a.dtype)


@tkjit.kernel(
    "grouped_matmul_gradient.cu",
    entry="grouped_matmul_gradient<T>",
    struct="Problem<T>",
    grid=CExpr("Launch<T>::blocks(K, N, 1, E)"),
    block=CExpr("Launch<T>::threads"),
    shared_memory=CExpr("Launch<T>::shared_bytes"),
    variants={"T": DTYPES},
    prepare=with_ends,
    flops="2 * M * N * K",
    examples=EXAMPLES,
    sizes=SIZES,
)
def grouped_matmul_gradient(
    grad_c: In[Tensor, "T", "M", "N"],
    a: In[Tensor, "T", "M", "K"],
    ends: In[Tensor, "int32", "E"],
    grad_b: Out[Tensor, "T", "E", "K", "N"],
) -> Tensor:
    """Computes the gradient of ``grouped_matmul`` for `b`: a[rows].T @ grad_c[rows] for the rows of each group.

    Parameters
    ----------
    grad_c : (M, N) float32, bfloat16 or float16
    a : (M, K) of grad_c's dtype
    ends : (E,) int32

    Returns
    -------
    grad_b : (E, K, N) of grad_c's dtype
    """
    import torch

    groups = groups_of(ends, a.shape[0])[:-1]
    sums = [a[rows].float().T @ grad_c[rows].float() for rows in groups]
    return torch.stack(sums).to(a.dtype) if sums else a.new_zeros(0, a.shape[1], grad_c.shape[1])
