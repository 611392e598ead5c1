"""Products of CUTLASS and of CuTe's tutorials."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import tkjit
from benchmarks.real_libraries.case import Case, host_function, normal, product, source
from tkjit import Align, HeaderLibrary, In, Out, Tensor


def half_product(text: str, libraries: Sequence[HeaderLibrary]) -> tkjit.Kernel:
    @host_function(text, "multiplied", libraries, {"m": "M", "n": "N", "k": "K"})
    def multiplied(
        a: In[Tensor, "float16", "M", "K", Align(16)],
        b: In[Tensor, "float16", "N", "K", Align(16)],
        d: Out[Tensor, "float16", "M", "N", Align(16)],
    ) -> Tensor:
        return a @ b.T

    return multiplied


def case(name: str, arch: str, m: int, n: int, k: int, text: str) -> Case:
    return Case(
        name,
        arch,
        ["cutlass"],
        lambda libraries: half_product(text, libraries),
        lambda: (normal(m, k, dtype=torch.float16), normal(n, k, dtype=torch.float16)),
        lambda a, b: (product(a, b),),
    )


def tutorial(file: str, arch: str, m: int, n: int, k: int, note: str = "") -> Case:
    text = source(
        "cute_sm100.cu" if arch == "100a" else "cute.cu",
        "#define main tutorial_main",
        f'#include "{file}"',
        "#undef main",
    )
    return case(f"CuTe tutorial, {file.rpartition('/')[2]}{note}", arch, m, n, k, text)


def collective(note: str, arch: str, m: int, n: int, k: int, **macros: str) -> Case:
    return case(f"CUTLASS, collective builder, {note}", arch, m, n, k, source("collective.cu", **macros))


CASES = [
    tutorial("sgemm_sm80.cu", "80", 256, 128, 192),
    tutorial("hopper/wgmma_sm90.cu", "90a", 256, 128, 192),
    tutorial("hopper/wgmma_tma_sm90.cu", "90a", 128, 256, 256, ", cluster 2 x 1"),
    tutorial("blackwell/02_mma_tma_sm100.cu", "100a", 256, 512, 192),
    tutorial("blackwell/04_mma_tma_2sm_sm100.cu", "100a", 1024, 1024, 128, ", pairs of blocks"),
    collective(
        "pingpong, cluster 2 x 1",
        "90a",
        384,
        256,
        320,
        ARCH="Sm90",
        ROWS="_128",
        SCHEDULE="KernelTmaWarpSpecializedPingpong",
        EPILOGUE="TmaWarpSpecialized",
    ),
    collective(
        "cooperative, cluster 2 x 1",
        "90a",
        384,
        256,
        320,
        ARCH="Sm90",
        ROWS="_128",
        SCHEDULE="KernelTmaWarpSpecializedCooperative",
        EPILOGUE="TmaWarpSpecializedCooperative",
    ),
    collective(
        "for sm_100a, pairs of blocks",
        "100a",
        512,
        256,
        320,
        ARCH="Sm100",
        ROWS="_256",
        SCHEDULE="KernelTmaWarpSpecialized2SmSm100",
        EPILOGUE="TmaWarpSpecialized2Sm",
    ),
]
