"""Figures from nvcc's report, and dependencies of builds with nvcc."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from support.static_library import write_static_library

import tkjit
from tkjit import CompileError, InOut, Tensor
from tkjit.cli import main
from tkjit.compile.resources import resources_text
from tkjit.compile.targets import gpu_target
from tkjit.spec import Variant

pytestmark = pytest.mark.nvcc
HOPPER = gpu_target("90a")
# 64 values are live at the same time
SOURCE = """
__global__ void crowded(float* x) {
    __shared__ float shared[256];
    float value[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) value[i] = x[i * 32 + threadIdx.x];
    for (int round = 0; round < 9; ++round) {
#pragma unroll
        for (int i = 0; i < 64; ++i) value[i] = value[i] * value[(i + 7) % 64] + 1.0f;
    }
    shared[threadIdx.x] = value[0];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 64; ++i) x[i * 32 + threadIdx.x] = value[i] + shared[threadIdx.x ^ 1];
}
"""
FILE = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel("crowded.cu", entry="crowded", args=True, grid=1, block=32, flags=["-maxrregcount=32"])
def crowded(x: InOut[Tensor, "float32", "N"]) -> None: ...
"""


def crowded(**options) -> tkjit.Kernel:
    @tkjit.kernel(SOURCE, entry="crowded", args=True, grid=1, block=32, **options)
    def crowded(x: InOut[Tensor, "float32", "N"]) -> None: ...

    return crowded


@pytest.mark.slow
def test_spills_are_recorded_and_shown(loader, tmp_path, monkeypatch, capsys):
    (tmp_path / "crowded.py").write_text(FILE)
    (tmp_path / "crowded.cu").write_text(SOURCE)
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    assert main(["warmup", "crowded", "--arch", "90a"]) == 0
    entry = loader.launcher(tkjit.find("crowded").specs[0], Variant(), HOPPER)
    manifest = entry.manifest
    assert manifest["registers"] == 32 and manifest["shared_memory_bytes"] == 1024
    assert manifest["spill_store_bytes"] > 0 and manifest["spill_load_bytes"] > 0
    assert manifest["seconds"] > 0.1 and manifest["peak_memory_bytes"] > 1 << 24
    spilled = manifest["spill_store_bytes"] + manifest["spill_load_bytes"]
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("crowded for sm_90a ")]
    shown = rf".* \d+\.\d s  32 registers, {spilled} B spilled, 1024 B static shared memory, compiler \d+\.\d MiB"
    assert re.fullmatch(shown, line), line


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["nvcc", "nvrtc"])
def test_a_flag_makes_spills_an_error(loader, compiler):
    limited = ["-Xptxas=-warn-spills,-Werror", "-maxrregcount=32"]
    kernel = crowded(flags=limited, compiler=compiler)
    with pytest.raises(CompileError, match=r"^ptxas error   : Registers are spilled to local memory"):
        loader.launcher(kernel.specs[0], Variant(), HOPPER)
    roomy = crowded(flags=limited[:1], compiler=compiler)
    assert loader.launcher(roomy.specs[0], Variant(), HOPPER).manifest["spill_store_bytes"] == 0


INDEXED = """
__global__ void indexed(float* x) {
    float held[64];
    for (int i = 0; i < 64; ++i) held[i] = x[i] * i;
    for (int i = 0; i < 64; ++i) held[int(x[i]) % 64] += x[i];
    for (int i = 0; i < 64; ++i) x[i] = held[i];
}
"""


def test_an_array_that_is_not_in_registers_is_recorded_and_shown(loader):
    @tkjit.kernel(INDEXED, entry="indexed", args=True, grid=1, block=32)
    def indexed(x: InOut[Tensor, "float32", "N"]) -> None: ...

    manifest = loader.launcher(indexed.specs[0], Variant(), HOPPER).manifest
    assert manifest["stack_bytes"] == 256 and manifest["spill_store_bytes"] == 0
    assert resources_text(manifest).endswith(" B static shared memory, 256 B stack")


NEIGHBOURS = """
template <int N>
__global__ void quiet(float* x) { x[threadIdx.x] = N; }
void launch_each(float* x) {
    quiet<1><<<1, 32>>>(x);
    quiet<2><<<1, 32>>>(x);
    crowded<<<1, 32>>>(x);
}
"""
QUIET = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel(
    "quiet.cu", entry="quiet<1>", args=True, grid=1, block=32, flags=["-maxrregcount=32"]
)
def quiet(x: InOut[Tensor, "float32", "N"]) -> None: ...
"""


def test_the_figures_of_other_kernels_in_a_file_are_separate(loader, tmp_path, monkeypatch, capsys):
    (tmp_path / "quiet.py").write_text(QUIET)
    (tmp_path / "quiet.cu").write_text(SOURCE + NEIGHBOURS)
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    assert main(["warmup", "quiet", "--arch", "90a"]) == 0
    manifest = loader.launcher(tkjit.find("quiet").specs[0], Variant(), HOPPER).manifest
    assert manifest["registers"] < 32 and manifest["spill_store_bytes"] == manifest["shared_memory_bytes"] == 0
    assert set(manifest["other_kernels"]) == {"void quiet<2>(float*)", "crowded(float*)"}
    crowded_takes = manifest["other_kernels"]["crowded(float*)"]
    assert crowded_takes["registers"] == 32 and crowded_takes["spill_store_bytes"] > 0
    assert ", 2 other kernels, compiler " in capsys.readouterr().out
    assert main(["show", "quiet"]) == 0
    shown = capsys.readouterr().out
    assert f"  quiet for sm_90a: {manifest['registers']} registers, 0 B spilled, 0 B static shared memory" in shown
    assert "\n    also in the file: crowded(float*): 32 registers, " in shown


def test_an_indirectly_included_header_is_compared_by_content(loader, tmp_path):
    for name, text in (("one.h", '#include "two.h"\n'), ("two.h", '#include "three.h"\n')):
        (tmp_path / name).write_text(text)
    header = tmp_path / "three.h"
    header.write_text("#define VALUE 1\n")

    @tkjit.kernel(
        '#include "one.h"\n__global__ void deep(float* x) { x[0] = VALUE; }\n',
        entry="deep",
        args=True,
        grid=1,
        block=1,
        include_dirs=[tmp_path],
    )
    def deep(x: InOut[Tensor, "float32", "N"]) -> None: ...

    def built() -> Path:
        return loader.launcher(deep.specs[0], Variant(), HOPPER).directory

    first = built()
    os.utime(header, (1, 1))
    assert built() == first
    header.write_text("#define VALUE 2\n")
    second = built()
    assert second.parent == first.parent and second != first
    header.write_text("#define VALUE 1\n")
    assert built() == first


@pytest.mark.slow
def test_a_replaced_static_library_causes_a_rebuild(loader, tmp_path):
    @tkjit.kernel(
        "int value();\n__global__ void f(float* x, int n) { x[0] = n; }\n"
        "void linking(float* x) { f<<<1, 1>>>(x, value()); }\n",
        entry="linking",
        args=True,
        host=True,
        flags=[f"-L{tmp_path}"],
        libraries=["value"],
    )
    def linking(x: InOut[Tensor, "float32", "N"]) -> None: ...

    def built() -> Path:
        return loader.launcher(linking.specs[0], Variant(), HOPPER).directory

    write_static_library(tmp_path, 1)
    first = built()
    write_static_library(tmp_path, 1)
    assert built() == first
    write_static_library(tmp_path, 2)
    assert built() != first
