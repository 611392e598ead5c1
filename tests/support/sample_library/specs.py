"""Specs of the sample library's kernels; each uses a different kind of spec."""

import torch

import tkjit
from support.sample_library.library import MITTENS
from tkjit import CExpr, In, InOut, Member, Out, ParallelTensor, Tensor


@tkjit.kernel(
    "<mittens>/kernels/gemm.cu",
    headers=MITTENS,
    entry="mittens::kernel<gemm_template<16>>",
    struct="gemm_layout<16>::globals",
    grid=CExpr("gemm_template<16>::grid(M, N)"),
    block=CExpr("mittens::threads_v<gemm_template<16>>"),
    constraints="K % 16 == 0",
)
def gemm(
    A: In[Tensor, "bfloat16", "M", "K"], B: In[Tensor, "bfloat16", "K", "N"], C: Out[Tensor, "bfloat16", "M", "N"]
) -> Tensor:
    """Multiply A by B."""
    return (A.float() @ B.float()).to(A.dtype)


@tkjit.kernel(
    "<mittens>/kernels/row_scale.cu",
    headers=MITTENS,
    entry="row_scale<D>",
    struct="auto",
    fields="x y factor",
    variants={"D": (32, 128)},
)
def row_scale(x: In[Tensor, "float32", "N", "D"], factor: float, y: Out[Tensor, "float32", "N", "D"]) -> Tensor:
    """Reverse each row of x, and multiply it by a factor."""
    return x.flip(1) * factor


@tkjit.kernel(
    "<mittens>/kernels/residual.cu",
    headers=MITTENS,
    entry="add_residual<T>",
    struct="residual_globals<T>",
    fields="x residual o rows rows_per_block per_block",
    computed={"rows": "M", "rows_per_block": 2, "per_block": 2},
    trailing="per_block",
    grid="cdiv(M, 2)",
    block=CExpr("NUM_THREADS"),
    variants={"T": ("float32", "bfloat16")},
)
def add_residual(
    x: In[Tensor, "T", "M", "N"], residual: In[Tensor, "T", "M", "N"], o: Out[Tensor, "T", "M", "N"]
) -> Tensor:
    """Add a residual to x."""
    return x + residual


@tkjit.kernel(
    "<mittens>/kernels/complex_product.cu",
    headers=MITTENS,
    entry="complex_product",
    struct="complex_globals",
    grid="cdiv(N, 64)",
    block=64,
)
def complex_product(
    x_real: In[Tensor, "float32", "N", Member("x.real")],
    x_imag: In[Tensor, "float32", "N", Member("x.imag")],
    y_real: In[Tensor, "float32", "N", Member("y.real")],
    y_imag: In[Tensor, "float32", "N", Member("y.imag")],
    magnitude: Out[Tensor, "float32", "N"],
) -> Tensor:
    """Compute the squared magnitude of the product of two complex vectors."""
    return (torch.complex(x_real, x_imag) * torch.complex(y_real, y_imag)).abs().square()


@tkjit.kernel(
    "<mittens>/kernels/row_sums.cu",
    headers=MITTENS,
    entry="row_sums::kernel",
    struct="row_sums::globals",
    config="row_sums::config",
)
def row_sums(x: In[Tensor, "float32", "M", "N"], sums: Out[Tensor, "float32", "M"]) -> Tensor:
    """Sum each row."""
    return x.sum(1)


@tkjit.kernel(
    "<mittens>/kernels/row_sums.cu",
    headers=MITTENS,
    entry="sum_rows",
    args=True,
    host=True,
    fields="x sums rows cols",
    computed={"rows": "M", "cols": "N"},
)
def row_sums_by_host(x: In[Tensor, "float32", "M", "N"], sums: Out[Tensor, "float32", "M"]) -> Tensor:
    """Sum each row through the source's own launch."""
    return x.sum(1)


@tkjit.kernel(
    "<mittens>/kernels/device_sums.cu",
    headers=MITTENS,
    entry="device_sums",
    struct="device_sums_globals",
    fields="parts out_ dev_idx",
    computed={"dev_idx": "dev_idx"},
    num_devices=2,
)
def device_sums(parts: In[ParallelTensor, "float32", "N"], out_: InOut[Tensor, "float32", "N", Member("out")]) -> None:
    """Sum all devices' parts on each device, and add the device's index."""


@tkjit.kernel(
    "<mittens>/kernels/clustered.cu",
    headers=MITTENS,
    entry="copy",
    struct="copy_globals",
    grid="2 * cdiv(N, 64)",
    block=32,
    cluster=2,
)
def copy_in_clusters(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor:
    """Copy x with clusters of two blocks."""
    return x.clone()


@tkjit.kernel(
    "<mittens>/kernels/clustered.cu",
    headers=MITTENS,
    entry="copy",
    struct="copy_globals",
    pdl=True,
)
def copy_early(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor:
    """Copy x in a launch that may overlap the previous one; the struct's launch members are not const."""
    return x.clone()


@tkjit.kernel(
    "<mittens>/kernels/built_for.cu",
    headers=MITTENS,
    entry="built_for",
    struct="built_globals",
    grid=1,
    block=1,
)
def built_for(out_: InOut[Tensor, "int32", 2, Member("out")]) -> Tensor:
    """Return the architecture's generation, and the library's flavour."""


KERNELS = {
    kernel.name: kernel
    for kernel in (
        gemm,
        row_scale,
        add_residual,
        complex_product,
        row_sums,
        row_sums_by_host,
        device_sums,
        copy_in_clusters,
        copy_early,
        built_for,
    )
}
