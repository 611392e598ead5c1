"""Kernels of DeepGEMM."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import tkjit
from benchmarks.real_libraries.case import Case, Result, host_function, normal, product, source
from tkjit import Align, HeaderLibrary, In, InOut, Out, Tensor

NEEDS = ["cutlass", "deepgemm"]
FP8 = torch.float8_e4m3fn
GROUP = 128  # elements of K with one scale


def by_groups(scales: Tensor, rows: int) -> Tensor:
    """Return scales for each element of (rows, K), from (K / 128, rows) or (rows / 128, K / 128)."""
    if scales.shape[1] == rows:
        return scales.T.repeat_interleave(GROUP, 1)
    return scales.repeat_interleave(GROUP, 0).repeat_interleave(GROUP, 1)


def scaled_product(a: Tensor, scales_of_a: Tensor, b: Tensor, scales_of_b: Tensor) -> Result:
    return product(a.float() * by_groups(scales_of_a, len(a)), b.float() * by_groups(scales_of_b, len(b)))


def scores(q: Tensor, keys: Tensor, scales: Tensor, weights: Tensor) -> Result:
    """Return sum_h w[s, h] relu(q[s, h] k[t]) scale[t]."""
    terms = torch.einsum("shd,td->sht", q.double(), keys.double()).relu() * scales.double()
    exact = torch.einsum("sht,sh->st", terms, weights.double())
    return Result(exact, torch.einsum("sht,sh->st", terms, weights.double().abs()) + 1)


def bf16(libraries: Sequence[HeaderLibrary], **macros: str) -> tkjit.Kernel:
    include = f"#include <deep_gemm/impls/{macros['KERNEL'].removesuffix('_impl')}.cuh>"
    text = source("deepgemm_bf16.cu", include, **macros)

    @host_function(text, "multiplied", libraries, {"m": "M", "n": "N", "k": "K"})
    def multiplied(
        a: In[Tensor, "bfloat16", "M", "K", Align(16)],
        b: In[Tensor, "bfloat16", "N", "K", Align(16)],
        d: Out[Tensor, "bfloat16", "M", "N", Align(16)],
    ) -> Tensor:
        return a @ b.T

    return multiplied


def fp8_1d2d(libraries: Sequence[HeaderLibrary]) -> tkjit.Kernel:
    @host_function(source("deepgemm_fp8_1d2d.cu"), "multiplied", libraries, {"m": "M", "n": "N", "k": "K"})
    def multiplied(
        a: In[Tensor, "float8_e4m3fn", "M", "K", Align(16)],
        scales_of_a: In[Tensor, "float32", "K // 128", "M", Align(16)],
        b: In[Tensor, "float8_e4m3fn", "N", "K", Align(16)],
        scales_of_b: In[Tensor, "float32", "N // 128", "K // 128"],
        d: Out[Tensor, "bfloat16", "M", "N", Align(16)],
    ) -> Tensor:
        return scaled_product(a, scales_of_a, b, scales_of_b).exact.bfloat16()

    return multiplied


def fp8_1d1d(libraries: Sequence[HeaderLibrary]) -> tkjit.Kernel:
    @host_function(source("deepgemm_fp8_1d1d.cu"), "multiplied", libraries, {"m": "M", "n": "N", "k": "K"})
    def multiplied(
        a: In[Tensor, "float8_e4m3fn", "M", "K", Align(16)],
        scales_of_a: In[Tensor, "float32", "K // 128", "M", Align(16)],
        b: In[Tensor, "float8_e4m3fn", "N", "K", Align(16)],
        scales_of_b: In[Tensor, "float32", "K // 128", "N", Align(16)],
        d: InOut[Tensor, "float32", "M", "N", Align(16)],
    ) -> Tensor:
        return added(scaled_product(a, scales_of_a, b, scales_of_b), d).exact.float()

    return multiplied


def batches(libraries: Sequence[HeaderLibrary]) -> tkjit.Kernel:
    @host_function(
        source("deepgemm_batches.cu", ROWS=128, COLS=256, DEPTH=192), "multiplied", libraries, {"batches": "B"}
    )
    def multiplied(
        a: In[Tensor, "bfloat16", "B", 128, 192, Align(16)],
        b: In[Tensor, "bfloat16", "B", 256, 192, Align(16)],
        d: InOut[Tensor, "float32", 128, 256, Align(16)],
    ) -> Tensor:
        return batch_results(a, b, d)[0].exact.float()

    return multiplied


def prenorm(libraries: Sequence[HeaderLibrary]) -> tkjit.Kernel:
    @host_function(source("deepgemm_prenorm.cu", COLS=24, DEPTH=512), "multiplied", libraries, {"m": "M"})
    def multiplied(
        a: In[Tensor, "bfloat16", "M", 512, Align(16)],
        b: In[Tensor, "float32", 24, 512, Align(16)],
        d: Out[Tensor, "float32", "M", 24, Align(16)],
        squares: Out[Tensor, "float32", "M"],
    ) -> tuple[Tensor, Tensor]:
        return a.float() @ b.T, a.float().square().sum(1)

    return multiplied


def mqa_logits(libraries: Sequence[HeaderLibrary]) -> tkjit.Kernel:
    @host_function(source("deepgemm_logits.cu"), "scored", libraries, {"queries": "S", "key_count": "T"})
    def scored(
        q: In[Tensor, "float8_e4m3fn", "S", 64, 128, Align(16)],
        keys: In[Tensor, "float8_e4m3fn", "T", 128, Align(16)],
        scales: In[Tensor, "float32", "T", Align(16)],
        weights: In[Tensor, "float32", "S", 64, Align(16)],
        starts: In[Tensor, "int32", "S"],
        ends: In[Tensor, "int32", "S"],
        logits: Out[Tensor, "float32", "S", "T"],
    ) -> Tensor:
        return scores(q, keys, scales, weights).exact.float()

    return scored


def paged_mqa_logits(libraries: Sequence[HeaderLibrary]) -> tkjit.Kernel:
    @host_function(
        source("deepgemm_paged_logits.cu"),
        "scored",
        libraries,
        {"sequences": "S", "page_count": "P", "pages_per_sequence": "L"},
    )
    def scored(
        q: In[Tensor, "float8_e4m3fn", "S", 64, 128, Align(16)],
        pages: In[Tensor, "float8_e4m3fn", "P", 64, 128, Align(16)],
        scales: In[Tensor, "float32", "P", 64, Align(16)],
        weights: In[Tensor, "float32", "S", 64, Align(16)],
        lengths: In[Tensor, "int32", "S"],
        table: In[Tensor, "int32", "S", "L"],
        logits: Out[Tensor, "float32", "S", "64 * L"],
    ) -> Tensor:
        return paged_results(q, pages, scales, weights, lengths, table)[0].exact.float()

    return scored


def fp8_operands(m: int, n: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return A, its scales, and B."""
    return normal(m, k, dtype=FP8), torch.rand(k // GROUP, m) + 0.5, normal(n, k, dtype=FP8)


def key_operands(queries: int, *keys: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return q, keys, their scales and the weights."""
    weights = normal(queries, 64, dtype=torch.float32)
    return normal(queries, 64, 128, dtype=FP8), normal(*keys, 128, dtype=FP8), torch.rand(*keys) + 0.5, weights


def paged_arguments() -> tuple[Tensor, ...]:
    """Three sequences of full pages, which lie in random order."""
    q, pages, scales, weights = key_operands(3, 24, 64)
    table = torch.randperm(24, dtype=torch.int32).reshape(3, 8)
    return q, pages, scales, weights, torch.full((3,), 512, dtype=torch.int32), table


def paged_results(
    q: Tensor, pages: Tensor, scales: Tensor, weights: Tensor, lengths: Tensor, table: Tensor
) -> tuple[Result, ...]:
    rows = [
        scores(q[i : i + 1], pages[row].flatten(0, 1), scales[row].flatten(), weights[i : i + 1])
        for i, row in enumerate(table.long())
    ]
    return (Result(*map(torch.cat, zip(*rows, strict=True))),)


def batch_results(a: Tensor, b: Tensor, d: Tensor) -> tuple[Result, ...]:
    exact, scale = product(a, b)
    return (Result(exact.sum(0) + d, scale.sum(0) + d.abs()),)


def prenorm_results(a: Tensor, b: Tensor) -> tuple[Result, ...]:
    squares = a.double().square().sum(1)
    return product(a, b), Result(squares, squares)


def added(result: Result, d: Tensor) -> Result:
    return Result(result.exact + d, result.scale + d.abs())


def bf16_case(name: str, arch: str, m: int, n: int, k: int, **macros: str) -> Case:
    return Case(
        name,
        arch,
        NEEDS,
        lambda libraries: bf16(libraries, **macros),
        lambda: (normal(m, k), normal(n, k)),
        lambda a, b: (product(a, b),),
    )


CASES = [
    bf16_case(
        "DeepGEMM, sm90_bf16_gemm, multicast, cluster 2 x 1",
        "90a",
        384,
        384,
        512,
        KERNEL="sm90_bf16_gemm_impl",
        THREADS="384",
        LOADED_COLS="cols",
        OPTIONS="1, rows, cols, depth, 128, 128, 128, stages, 128, 256, 2, true, blocks, GemmType::Normal, false, "
        "cutlass::bfloat16_t",
    ),
    bf16_case(
        "DeepGEMM, sm100_bf16_gemm, pairs of blocks",
        "100a",
        512,
        384,
        512,
        KERNEL="sm100_bf16_gemm_impl",
        THREADS="256",
        LOADED_COLS="cols / 2",
        OPTIONS="rows, cols, depth, 1, 128, 128, 128, stages, 128, 128, 2, false, blocks, 128, false, false, "
        "GemmType::Normal, false, cutlass::bfloat16_t, 100",
    ),
    Case(
        "DeepGEMM, sm90_fp8_gemm_1d2d, multicast, cluster 2 x 1",
        "90a",
        NEEDS,
        fp8_1d2d,
        lambda: (*fp8_operands(384, 256, 512), torch.rand(2, 4) + 0.5),
        lambda *operands: (scaled_product(*operands),),
    ),
    Case(
        "DeepGEMM, sm90_fp8_gemm_1d1d, multicast, cluster 2 x 1",
        "90a",
        NEEDS,
        fp8_1d1d,
        lambda: (*fp8_operands(256, 384, 512), torch.rand(4, 384) + 0.5, normal(256, 384, dtype=torch.float32)),
        lambda *operands: (added(scaled_product(*operands[:4]), operands[4]),),
    ),
    Case(
        "DeepGEMM, sm90_bmk_bnk_mn",
        "90a",
        NEEDS,
        batches,
        lambda: (normal(3, 128, 192), normal(3, 256, 192), normal(128, 256, dtype=torch.float32)),
        batch_results,
    ),
    Case(
        "DeepGEMM, sm90_tf32_hc_prenorm_gemm",
        "90a",
        NEEDS,
        prenorm,
        lambda: (normal(200, 512), normal(24, 512, dtype=torch.float32)),
        prenorm_results,
    ),
    Case(
        "DeepGEMM, sm90_fp8_mqa_logits",
        "90a",
        NEEDS,
        mqa_logits,
        lambda: (
            *key_operands(10, 512),
            torch.zeros(10, dtype=torch.int32),
            torch.randint(257, 513, (10,), dtype=torch.int32),  # all blocks of 256 keys are scored, and none is masked
        ),
        lambda *operands: (scores(*operands[:4]),),
    ),
    Case(
        "DeepGEMM, sm90_fp8_paged_mqa_logits, two launches",
        "90a",
        NEEDS,
        paged_mqa_logits,
        paged_arguments,
        paged_results,
    ),
]
