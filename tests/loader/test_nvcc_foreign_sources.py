"""Third-party CUDA programs load unmodified for GPUs."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from support.sampling import sample

import tkjit
from tkjit import CompileError, In, InOut, Out, Tensor
from tkjit.compile.targets import gpu_target
from tkjit.spec import Variant

pytestmark = pytest.mark.nvcc
HOPPER = gpu_target("90a")
SUPPORT = Path(__file__).parents[1] / "support"
SIMULATOR = SUPPORT / "simulator"
PROGRAMS = [
    SUPPORT / "kernels" / f"{name}.cu"
    for name in ("vector_add", "block_sums", "launch_forms", "transpose", "histogram", "relaxation")
]


@pytest.fixture(scope="session")
def foreign() -> dict[str, Any]:
    """The specs of a source that was not written for tkjit."""
    return runpy.run_path(str(SUPPORT / "kernels/foreign.py"))


@pytest.mark.parametrize("way", sample(["kernel", "host"], "host"))
def test_a_program_with_main_and_launch_syntax_compiles(loader, foreign, way):
    spec = foreign[way].specs[0]
    entry = loader.launcher(spec, Variant(), HOPPER)
    source = spec.sources[0][1].path
    assert source.read_text().rstrip() in (entry.directory / "launcher.cu").read_text(), "the source is unchanged"


@pytest.mark.parametrize("way", ["kernel", "host"])
def test_the_same_program_runs_on_the_cpu(foreign, way):
    x = torch.randn(4, 8)
    y = foreign[way](x, 8) if way == "kernel" else foreign[way](x, 4, 8)
    assert torch.equal(y, x.flip(1))


@pytest.mark.parametrize(
    "path", sample([*PROGRAMS, SIMULATOR / "groups.cu"], "launch_forms", name=lambda path: path.stem)
)
def test_the_simulators_test_programs_compile_for_a_gpu(loader, path, tmp_path):
    toolchain = loader.toolchain
    options = "-std=c++20 -gencode=arch=compute_90a,code=sm_90a --expt-relaxed-constexpr --expt-extended-lambda"
    command = [toolchain.nvcc.path, f"-ccbin={toolchain.cxx.path}", *options.split(), "-c", path, "-o", tmp_path / "o"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_nested_struct_with_launch_members_compiles(loader):
    source = """
    #include <tkjit/gl.h>
    template <int D> struct layout {
        struct globals {
            tkjit::gl<__nv_bfloat16, 1, 1, -1, D> x;
            float factor;
            dim3 grid() const { return dim3(x.rows()); }
            dim3 block() const { return dim3(D); }
            int dynamic_shared_memory() const { return D * 4; }
        };
    };
    template <int D> __global__ void scale(const __grid_constant__ typename layout<D>::globals g) {
        extern __shared__ float row[];
        row[threadIdx.x] = __bfloat162float(g.x(blockIdx.x, threadIdx.x)) * g.factor;
        g.x(blockIdx.x, threadIdx.x) = __float2bfloat16(row[threadIdx.x]);
    }
    """

    @tkjit.kernel(source, entry="scale<D>", struct="layout<D>::globals", variants={"D": (64, 128)})
    def scale(x: InOut[Tensor, "bfloat16", "N", "D"], factor: float) -> Tensor: ...

    loader.launcher(scale.specs[0], Variant((("D", 64),)), HOPPER)


def test_a_struct_that_the_spec_describes_wrongly_does_not_compile(loader):
    source = """
    #include <tkjit/gl.h>
    struct pair { tkjit::gl<float> x; tkjit::gl<float> y; };
    __global__ void copy(const __grid_constant__ pair g) { g.y[threadIdx.x] = g.x[threadIdx.x]; }
    """

    @tkjit.kernel(source, entry="copy", struct="pair", grid=1, block=32)
    def copy(x: In[Tensor, "float32", "N"]) -> None: ...

    with pytest.raises(CompileError, match="the number of fields of pair; the spec of copy says otherwise"):
        loader.launcher(copy.specs[0], Variant(), HOPPER)


@pytest.mark.parametrize("compiler", ["nvcc", "nvrtc"])
def test_a_syntax_error_is_reported_on_the_users_line(loader, tmp_path, compiler):
    (tmp_path / "broken.cu").write_text("// fine\n__global__ void broken(float* x) {\n    x[0] = ;\n}\n")

    @tkjit.kernel(tmp_path / "broken.cu", entry="broken", args=True, grid=1, block=1, compiler=compiler)
    def broken(x: InOut[Tensor, "float32", "N"]) -> None: ...

    with pytest.raises(CompileError) as raised:
        loader.launcher(broken.specs[0], Variant(), HOPPER)
    assert str(raised.value).startswith(f"{tmp_path}/broken.cu(3): error")
    assert raised.value.log_path.read_text().endswith(raised.value.log)
    assert compiler in raised.value.command and "launcher.cu" in raised.value.command


@pytest.fixture
def marked(tmp_path) -> tkjit.Kernel:
    """A kernel whose file begins with a byte-order mark, which some editors write."""
    source = (
        "template <class T>\n__global__ void twice(const T* x, T* y, int n) {\n"
        "    if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x];\n}\n"
    )
    path = tmp_path / "twice.cu"
    path.write_text(source, encoding="utf-8-sig")

    @tkjit.kernel(
        path,
        entry="twice<T>",
        args=True,
        grid=1,
        block=32,
        variants={"T": ("float32",)},
        fields="x y N",
        computed={"N": "N"},
    )
    def twice(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor: ...

    return twice


def test_a_byte_order_mark_is_ignored_on_the_cpu(marked):
    assert marked(torch.ones(3)).tolist() == [2, 2, 2]


def test_a_byte_order_mark_is_ignored_on_a_gpu(loader, marked):
    assert loader.launcher(marked.specs[0], Variant((("T", "float32"),)), HOPPER)
