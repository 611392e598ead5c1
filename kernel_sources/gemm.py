"""Matrix product: tiles in dynamic shared memory, tensor cores for 16-bit types, FMA for float32."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


def cublas(a, b):
    return a @ b


def gradients(grad_c, a, b, needed):
    grad_a = gemm(grad_c, b.T.contiguous()) if "a" in needed else None
    grad_b = gemm(a.T.contiguous(), grad_c) if "b" in needed else None
    return grad_a, grad_b


@tkjit.kernel(
    "gemm.cu",
    archs={"90a": "gemm_90a.cu"},
    entry="gemm<T>",
    struct="Problem<T>",
    grid=CExpr("Launch<T>::blocks(M, N)"),
    block=CExpr("Launch<T>::threads"),
    shared_memory=CExpr("Launch<T>::shared_bytes"),
    variants={"T": ("float32", "bfloat16", "float16")},
    tune={"STAGES": (4, 3, 5, 6), "TILE_N": (256, 128)},
    constraints="STAGES * (128 + TILE_N) <= 1536",  # a ring of at most 192 KiB, of Hopper's 227
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
)
def gemm(a: In[Tensor, "T", "M", "K"], b: In[Tensor, "T", "K", "N"], c: Out[Tensor, "T", "M", "N"]) -> Tensor:
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
