"""ThunderKittens' educational GEMMs for H100: a level more optimized than the one before."""

import tkjit
from tkjit import CExpr, In, Out, Tensor

THREADS = {
    "entry": "kernel",
    "args": True,
    "computed": {"N": "N"},
    "grid": "cdiv(N, 32), cdiv(N, 32)",
    "block": "32, 32",
}


# level 1: one thread an element, in float32
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_01.cu",
    constraints="N <= 46340",  # it counts elements in 32 bits
    **THREADS,
)
def tk_gemm_level_1(
    A: In[Tensor, "float32", "N", "N"], B: In[Tensor, "float32", "N", "N"], C: Out[Tensor, "float32", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices in float32."""
    return A @ B


# level 2: one thread an element, in bfloat16
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_02.cu",
    constraints="N <= 46340",  # it counts elements in 32 bits
    **THREADS,
)
def tk_gemm_level_2(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices; each product is rounded to bfloat16, their sum is in float32."""
    return A @ B


# level 3: tiles in shared memory
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_03.cu",
    constraints=["N % 32 == 0", "N <= 46340"],  # it counts elements in 32 bits
    **THREADS,
)
def tk_gemm_level_3(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices; each product is rounded to bfloat16, their sum is in float32."""
    return A @ B


TILES = {
    "entry": "kernel",
    "struct": "matmul_globals",
    "computed": {"N": "N"},
    "block": CExpr("NUM_THREADS"),
}


# level 4: one warp, tensor cores
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_04.cu",
    grid="cdiv(N, 32), cdiv(N, 32)",
    shared_memory=100000,
    constraints="N % 32 == 0",
    **TILES,
)
def tk_gemm_level_4(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices."""
    return A @ B


# level 5: a warpgroup, wgmma
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_05.cu",
    grid="cdiv(N, 64), cdiv(N, 64)",
    shared_memory=100000,
    constraints="N % 64 == 0",
    **TILES,
)
def tk_gemm_level_5(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices."""
    return A @ B


# level 6: tiles come by TMA into two buffers
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_06.cu",
    grid="cdiv(N, 64), cdiv(N, 64)",
    shared_memory=100000,
    constraints="N % 64 == 0",
    **TILES,
)
def tk_gemm_level_6(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices."""
    return A @ B


# level 7: a producer and a consumer warpgroup
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_07.cu",
    grid="cdiv(N, 64), cdiv(N, 64)",
    shared_memory=100000,
    constraints="N % 64 == 0",
    **TILES,
)
def tk_gemm_level_7(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices."""
    return A @ B


# level 8: two consumer warpgroups and tiles four wide
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_08.cu",
    grid="cdiv(N, 256), cdiv(N, 128)",
    shared_memory=200000,
    constraints="N % 256 == 0",
    **TILES,
)
def tk_gemm_level_8(
    A: In[Tensor, "bfloat16", "N", "N"], B: In[Tensor, "bfloat16", "N", "N"], C: Out[Tensor, "bfloat16", "N", "N"]
) -> Tensor:
    """C = A @ B, of square matrices."""
    return A @ B
