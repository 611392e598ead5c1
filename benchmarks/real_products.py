"""Verify and check products of CUTLASS and DeepGEMM on the CPU: ``python -m benchmarks.real_products DIRECTORY...``.

A directory is a checkout of NVIDIA/cutlass or deepseek-ai/DeepGEMM; the latter needs the former. Each product is called
through a host function with our spec, compared with torch, and checked for races and initialisation. Each runs in
its own process, because TKJIT_MODEL_ARCH applies to a whole process.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import torch

import tkjit
from tkjit import Align, HeaderLibrary, In, Out, Tensor
from tkjit.testing import KernelCheckError, check

CUTE = """
#define main tutorial_main
#include "{file}"
#undef main

void multiplied(const __half* a, const __half* b, __half* d, int m, int n, int k) {{
    using Half = cute::half_t;  // its d is column-major, so it computes B * A^T
    gemm_tn(n, m, k, Half(1.0f), (const Half*)b, k, (const Half*)a, k, Half(0.0f), (Half*)d, n);
}}
"""
CUTE_FOR_BLACKWELL = """
#define main tutorial_main
#include "{file}"
#undef main

void multiplied(const __half* a, const __half* b, __half* d, int m, int n, int k) {{
    const auto rows_of = [](int rows, int cols) {{
        return cute::make_layout(cute::make_shape(rows, cols), cute::make_stride(cols, cute::Int<1>{{}}));
    }};
    float *c, *sums;
    cudaMalloc(&c, sizeof(float) * m * n);
    cudaMalloc(&sums, sizeof(float) * m * n);
    cudaMemset(c, 0, sizeof(float) * m * n);
    using Half = cutlass::half_t;
    gemm_host_f16xf16_f32_f32_tnt((const Half*)a, rows_of(m, k), (const Half*)b, rows_of(n, k), c, rows_of(m, n), sums,
                                  rows_of(m, n), 1.0f, 0.0f);
    for (int i = 0; i < m * n; ++i) d[i] = __float2half(sums[i]);  // the memory of the simulator is the host's
    cudaFree(c);
    cudaFree(sums);
}}
"""
COLLECTIVE = """
#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/dispatch_policy.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

#include <stdexcept>

using Half = cutlass::half_t;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using Block = cute::Shape<cute::{rows}, cute::_128, cute::_64>;
using Blocks = cute::Shape<cute::_2, cute::_1, cute::_1>;
using Arch = cutlass::arch::{arch};
using Tensors = cutlass::arch::OpClassTensorOp;
using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    Arch, Tensors, Block, Blocks, cutlass::epilogue::collective::EpilogueTileAuto, float, float, Half, Row, 8, Half,
    Row, 8, cutlass::epilogue::{epilogue}>::CollectiveOp;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    Arch, Tensors, Half, Row, 8, Half, Column, 8, float, Block, Blocks,
    cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(Epilogue::SharedStorage))>,
    cutlass::gemm::{schedule}>::CollectiveOp;
using Product = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Product>;

void expect(cutlass::Status status) {{
    if (status != cutlass::Status::kSuccess) throw std::runtime_error(cutlassGetStatusString(status));
}}

void multiplied(const __half* a, const __half* b, __half* d, int m, int n, int k) {{
    const auto packed = [](auto stride, int rows, int cols) {{
        return cutlass::make_cute_packed_stride(stride, cute::make_shape(rows, cols, 1));
    }};
    const auto by_a = packed(Product::StrideA(), m, k);
    const auto by_b = packed(Product::StrideB(), n, k);
    const auto by_d = packed(Product::StrideD(), m, n);
    const Gemm::Arguments arguments{{cutlass::gemm::GemmUniversalMode::kGemm,
                                    {{m, n, k, 1}},
                                    {{(const Half*)a, by_a, (const Half*)b, by_b}},
                                    {{{{1.0f, 0.0f}}, (Half*)d, by_d, (Half*)d, by_d}},
                                    {{0, 4}}}};
    Gemm gemm;
    expect(gemm.can_implement(arguments));
    void* workspace = nullptr;
    cudaMalloc(&workspace, Gemm::get_workspace_size(arguments) + 1);
    expect(gemm.initialize(arguments, workspace));
    expect(gemm.run());
    cudaFree(workspace);
}}
"""
DEEPGEMM = """
#include <deep_gemm/impls/{arch}_bf16_gemm.cuh>

#include <stdexcept>

using namespace deep_gemm;
using Number = __nv_bfloat16;

CUtensorMap map_of(const Number* x, uint64_t rows, uint64_t cols, uint32_t box_rows) {{
    CUtensorMap map;
    const cuuint64_t sizes[] = {{cols, rows}}, strides[] = {{cols * sizeof(Number)}};
    const cuuint32_t box[] = {{64, box_rows}}, steps[] = {{1, 1}};
    if (cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void*)x, sizes, strides, box, steps,
                               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) {{
        throw std::runtime_error("a matrix has no tensor map");
    }}
    return map;
}}

void multiplied(const Number* a, const Number* b, Number* d, int m, int n, int k) {{
    constexpr int rows = 128, cols = 128, loaded_cols = {loaded_cols}, depth = 64, stages = 4, blocks = 4;
    constexpr auto by_k = cute::UMMA::Major::K;
    const auto kernel = &{arch}_bf16_gemm_impl<by_k, by_k, 0, 0, 0, {options}>;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 2;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {{}};
    config.gridDim = blocks;
    config.blockDim = {threads};
    config.attrs = &attribute;
    config.numAttrs = 1;
    config.dynamicSmemBytes = (rows * cols + stages * (rows + loaded_cols) * depth) * sizeof(Number) + 1024;
    cudaLaunchKernelEx(&config, kernel, (int*)nullptr, uint32_t(m), uint32_t(n), uint32_t(k), map_of(a, m, k, rows),
                       map_of(b, n, k, loaded_cols), map_of(d, m, n, rows));
}}
"""


class Product(NamedTuple):
    """A source with its texts, the architecture that the simulator imitates, the dtype, and the sizes m, n, k."""

    source: str
    arch: str
    dtype: str
    sizes: tuple[int, int, int]
    texts: Mapping[str, str] = MappingProxyType({})
    needs: str = "cutlass"


HOPPER = {"arch": "Sm90", "rows": "_128"}
PRODUCTS = {
    "CuTe tutorial, sgemm_sm80.cu": Product(CUTE, "80", "float16", (256, 128, 192), {"file": "sgemm_sm80.cu"}),
    "CuTe tutorial, wgmma_sm90.cu": Product(CUTE, "90a", "float16", (256, 128, 192), {"file": "hopper/wgmma_sm90.cu"}),
    "CuTe tutorial, wgmma_tma_sm90.cu, cluster 2 x 1": Product(
        CUTE, "90a", "float16", (128, 256, 256), {"file": "hopper/wgmma_tma_sm90.cu"}
    ),
    "CuTe tutorial, 02_mma_tma_sm100.cu": Product(
        CUTE_FOR_BLACKWELL, "100a", "float16", (256, 512, 192), {"file": "blackwell/02_mma_tma_sm100.cu"}
    ),
    "CuTe tutorial, 04_mma_tma_2sm_sm100.cu, pairs of blocks": Product(
        CUTE_FOR_BLACKWELL, "100a", "float16", (1024, 1024, 128), {"file": "blackwell/04_mma_tma_2sm_sm100.cu"}
    ),
    "CUTLASS, collective builder, pingpong, cluster 2 x 1": Product(
        COLLECTIVE,
        "90a",
        "float16",
        (384, 256, 320),
        HOPPER | {"schedule": "KernelTmaWarpSpecializedPingpong", "epilogue": "TmaWarpSpecialized"},
    ),
    "CUTLASS, collective builder, cooperative, cluster 2 x 1": Product(
        COLLECTIVE,
        "90a",
        "float16",
        (384, 256, 320),
        HOPPER | {"schedule": "KernelTmaWarpSpecializedCooperative", "epilogue": "TmaWarpSpecializedCooperative"},
    ),
    "CUTLASS, collective builder, for sm_100a, pairs of blocks": Product(
        COLLECTIVE,
        "100a",
        "float16",
        (512, 256, 320),
        {
            "arch": "Sm100",
            "rows": "_256",
            "schedule": "KernelTmaWarpSpecialized2SmSm100",
            "epilogue": "TmaWarpSpecialized2Sm",
        },
    ),
    "DeepGEMM, sm90_bf16_gemm, multicast, cluster 2 x 1": Product(
        DEEPGEMM,
        "90a",
        "bfloat16",
        (384, 384, 512),
        {
            "arch": "sm90",
            "threads": "384",
            "loaded_cols": "cols",
            "options": "1, rows, cols, depth, 128, 128, 128, stages, 128, 256, 2, true, blocks, "
            "GemmType::Normal, false, cutlass::bfloat16_t",
        },
        needs="DeepGEMM",
    ),
    "DeepGEMM, sm100_bf16_gemm, pairs of blocks": Product(
        DEEPGEMM,
        "100a",
        "bfloat16",
        (512, 384, 512),
        {
            "arch": "sm100",
            "threads": "256",
            "loaded_cols": "cols / 2",
            "options": "rows, cols, depth, 1, 128, 128, 128, stages, 128, 128, 2, false, blocks, 128, false, false, "
            "GemmType::Normal, false, cutlass::bfloat16_t, 100",
        },
        needs="DeepGEMM",
    ),
}
# directories of headers in a checkout, which the proof identifies
LIBRARIES = {
    "cutlass": ("include/cute/tensor.hpp", ("include", "tools/util/include", "examples/cute/tutorial")),
    "DeepGEMM": ("deep_gemm/include/deep_gemm/impls/sm90_bf16_gemm.cuh", ("deep_gemm/include",)),
}


def libraries_in(directories: Sequence[Path]) -> dict[str, HeaderLibrary]:
    return {
        name: HeaderLibrary(name.lower() + "_checkout", proof, include, directory.absolute(), uses_driver=True)
        for name, (proof, include) in LIBRARIES.items()
        for directory in directories
        if (directory / proof).is_file()
    }


def kernel_of(product: Product, libraries: dict[str, HeaderLibrary]) -> tkjit.Kernel:
    @tkjit.kernel(
        product.source.format(**product.texts),
        entry="multiplied",
        host=True,
        args=True,
        headers=list(libraries.values()),
        computed={"m": "M", "n": "N", "k": "K"},
        variants={"T": (product.dtype,)},
    )
    def multiplied(
        a: In[Tensor, "T", "M", "K", Align(16)],
        b: In[Tensor, "T", "N", "K", Align(16)],
        d: Out[Tensor, "T", "M", "N", Align(16)],
    ) -> Tensor:
        return a @ b.T

    return multiplied


def outcome(product: Product, libraries: dict[str, HeaderLibrary]) -> str:
    """The greatest error relative to the sum of the terms' magnitudes, the findings, CPU seconds and memory."""
    kernel = kernel_of(product, libraries)
    m, n, k = product.sizes
    torch.manual_seed(0)
    a, b = (torch.randn(rows, k).to(getattr(torch, product.dtype)) for rows in (m, n))
    exact, scale = a.double() @ b.double().T, a.double().abs() @ b.double().abs().T
    error = ((kernel(a, b).double() - exact).abs() / scale).max().item()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    build_s, build_bytes = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report = check(kernel, a, b, modes=["race", "init"])
        except KernelCheckError as failure:
            report = failure.report
    found = [f"{finding.kind}: {finding.text.partition(';')[0]}" for finding in (*report.findings, *report.warnings)]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    check_s = used.ru_utime + used.ru_stime - build_s
    most_gib = max(build_bytes, used.ru_maxrss * 1024) / 2**30
    return f"{error:.1e} | {build_s:.0f} s | {check_s:.0f} s | {most_gib:.1f} GiB | {'; '.join(found) or 'none'}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_products", description=__doc__.splitlines()[0])
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--only", choices=PRODUCTS, help="the product to run in this process")
    options = parser.parse_args(arguments)
    libraries = libraries_in(options.directories)
    if options.only:
        print(f"| {options.only} | {outcome(PRODUCTS[options.only], libraries)} |", flush=True)
        return
    for name, product in PRODUCTS.items():
        if product.needs not in libraries:
            continue
        command = [sys.executable, "-m", "benchmarks.real_products", *map(str, options.directories), "--only", name]
        subprocess.run(command, env=os.environ | {"TKJIT_MODEL_ARCH": product.arch}, check=False)


if __name__ == "__main__":
    main()
