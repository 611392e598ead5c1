"""ThunderKittens' educational GEMMs, for H100 and for B200: each level is more optimized than the previous one."""

import tkjit
from tkjit import CExpr, In, Out, Tensor

Matrix = In[Tensor, "bfloat16", "N", "N"]
Product = Out[Tensor, "bfloat16", "N", "N"]

THREADS = {
    "entry": "kernel",
    "args": True,
    "computed": {"N": "N"},
    "grid": "cdiv(N, 32), cdiv(N, 32)",
    "block": "32, 32",
}


# H100, level 1: one thread per element, in float32
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_01.cu",
    constraints="N <= 46340",  # the kernel counts elements in 32 bits
    **THREADS,
)
def tk_gemm_level_1(
    A: In[Tensor, "float32", "N", "N"], B: In[Tensor, "float32", "N", "N"], C: Out[Tensor, "float32", "N", "N"]
) -> Tensor:
    """Computes A @ B for square matrices, in float32."""
    return A @ B


# H100, level 2: one thread per element, in bfloat16
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_02.cu",
    constraints="N <= 46340",  # the kernel counts elements in 32 bits
    **THREADS,
)
def tk_gemm_level_2(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices, with products rounded to bfloat16 and summed in float32."""
    return A @ B


# H100, level 3: tiles in shared memory
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_03.cu",
    constraints=["N % 32 == 0", "N <= 46340"],  # the kernel counts elements in 32 bits
    **THREADS,
)
def tk_gemm_level_3(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices, with products rounded to bfloat16 and summed in float32."""
    return A @ B


TILES = {
    "entry": "kernel",
    "struct": "matmul_globals",
    "computed": {"N": "N"},
    "block": CExpr("NUM_THREADS"),
}


# H100, level 4: one warp, tensor cores
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_04.cu",
    grid="cdiv(N, 32), cdiv(N, 32)",
    shared_memory=100000,
    constraints="N % 32 == 0",
    **TILES,
)
def tk_gemm_level_4(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices."""
    return A @ B


# H100, level 5: a warpgroup, wgmma
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_05.cu",
    grid="cdiv(N, 64), cdiv(N, 64)",
    shared_memory=100000,
    constraints="N % 64 == 0",
    **TILES,
)
def tk_gemm_level_5(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices."""
    return A @ B


# H100, level 6: TMA loads tiles into two buffers
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_06.cu",
    grid="cdiv(N, 64), cdiv(N, 64)",
    shared_memory=100000,
    constraints="N % 64 == 0",
    **TILES,
)
def tk_gemm_level_6(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices."""
    return A @ B


# H100, level 7: a producer and a consumer warpgroup
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_07.cu",
    grid="cdiv(N, 64), cdiv(N, 64)",
    shared_memory=100000,
    constraints="N % 64 == 0",
    **TILES,
)
def tk_gemm_level_7(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices."""
    return A @ B


# H100, level 8: two consumer warpgroups, and tiles four times as wide
@tkjit.kernel(
    "<thunderkittens>/kernels/gemm/educational_h100/level_08.cu",
    grid="cdiv(N, 256), cdiv(N, 128)",
    shared_memory=200000,
    constraints="N % 256 == 0",
    **TILES,
)
def tk_gemm_level_8(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices."""
    return A @ B


# B200, level 1: one thread per element, in float32
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_01.cu"},
    constraints="N <= 46340",  # the kernel counts elements in 32 bits
    **THREADS,
)
def tk_gemm_b200_level_1(
    A: In[Tensor, "float32", "N", "N"], B: In[Tensor, "float32", "N", "N"], C: Out[Tensor, "float32", "N", "N"]
) -> Tensor:
    """Computes A @ B for square matrices, in float32."""
    return A @ B


# B200, level 2: one thread per element, in bfloat16
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_02.cu"},
    constraints="N <= 46340",  # the kernel counts elements in 32 bits
    **THREADS,
)
def tk_gemm_b200_level_2(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices, with products rounded to bfloat16 and summed in float32."""
    return A @ B


# B200, level 3: tiles in shared memory
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_03.cu"},
    constraints=["N % 32 == 0", "N <= 46340"],  # the kernel counts elements in 32 bits
    **THREADS,
)
def tk_gemm_b200_level_3(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices, with products rounded to bfloat16 and summed in float32."""
    return A @ B


# B200, level 4: one warp, tensor cores
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_04.cu"},
    entry="kernel",
    struct="matmul_globals",
    computed={"N": "N"},
    grid="N // 32, N // 32",
    block=CExpr("NUM_THREADS"),
    shared_memory=100000,
    constraints="N % 32 == 0",
)
def tk_gemm_b200_level_4(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices."""
    return A @ B


TMA = {
    "entry": "matmul_kernel",
    "args": True,
    "computed": {"N": "N"},
    "block": CExpr("NUM_THREADS"),
    "shared_memory": CExpr("MAX_SHARED_MEMORY - 1024"),
}


# B200, level 5: TMA loads tiles
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_05.cu"},
    grid="N // 64, N // 64",
    constraints="N % 64 == 0",
    **TMA,
)
def tk_gemm_b200_level_5(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices."""
    return A @ B


# B200, level 6: tcgen05, a tile of sums in tensor memory
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_06.cu"},
    grid="(N // 128) * (N // 128)",
    constraints="N % 128 == 0",
    **TMA,
)
def tk_gemm_b200_level_6(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices."""
    return A @ B


# B200, level 7: a loading warp and a multiplying warp, three stages
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_07.cu"},
    grid="(N // 128) * (N // 128)",
    constraints="N % 128 == 0",
    **TMA,
)
def tk_gemm_b200_level_7(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices."""
    return A @ B


# B200, level 8: results are stored in four parts
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_08.cu"},
    grid="(N // 128) * (N // 256)",
    constraints="N % 256 == 0",
    **TMA,
)
def tk_gemm_b200_level_8(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices."""
    return A @ B


# B200, level 9: clusters of two blocks, two consumer warpgroups
@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/educational_b200/level_09.cu"},
    grid="N // 512 * (N // 256) * 2",
    constraints="N % 512 == 0",
    **TMA,
)
def tk_gemm_b200_level_9(A: Matrix, B: Matrix, C: Product) -> Tensor:
    """Computes A @ B for square matrices."""
    return A @ B
