"""Matrix product: tiles in dynamic shared memory, tensor cores for the 16-bit types, FMA for float32."""

import tkjit
from tkjit import In, Out, Tensor


def gradients(grad_c, a, b, needed):
    grad_a = gemm(grad_c, b.T.contiguous()) if "a" in needed else None
    grad_b = gemm(a.T.contiguous(), grad_c) if "b" in needed else None
    return grad_a, grad_b


@tkjit.kernel(
    "gemm.cu",
    entry="gemm<T>",
    grid="cdiv(M, 128) * cdiv(N, 128)",
    block=256,
    shared_memory=37888,  # two stages of both tiles: 2 * (128 * 40 + 32 * 136) 16-bit elements; float32 needs less
    variants={"T": ("float32", "bfloat16", "float16")},
    backward=gradients,
)
def gemm(a: In[Tensor, "T", "M", "K"], b: In[Tensor, "T", "K", "N"], c: Out[Tensor, "T", "M", "N"]) -> Tensor:
    """c <- a @ b, summed in float32.

    Parameters
    ----------
    a : (M, K) float32, bfloat16 or float16, row-major
    b : (K, N) of a's dtype, row-major

    Returns
    -------
    c : (M, N) of a's dtype

    Notes
    -----
    Source: the fragment layouts of mma.sync and ldmatrix, PTX ISA, "Warp Level Matrix Instructions".
    """
    return a @ b
