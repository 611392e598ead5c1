"""Compares cold builds with stock ``load_inline`` of the same function, and with the bare compilers."""

from __future__ import annotations

import subprocess
import sysconfig
import tempfile
from pathlib import Path

import torch

import tkjit
from benchmarks.harness import Row, in_fresh_process, interleaved, timed
from tkjit.compile.flags import launcher_flags
from tkjit.compile.targets import gpu_target
from tkjit.compile.toolchain import Toolchain
from tkjit.config import Settings

RUNS = 3

_LOAD_INLINE = """
import time, tempfile, torch
from torch.utils import cpp_extension
source = '''
at::Tensor axpy(const at::Tensor& x, at::Tensor y, double alpha) {
    TORCH_CHECK(x.is_contiguous() && y.is_contiguous() && x.sizes() == y.sizes());
    const float* xs = x.const_data_ptr<float>();
    float* ys = y.mutable_data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); ++i) ys[i] += alpha * xs[i];
    return y;
}
'''
x, y = torch.randn(1000), torch.randn(1000)
start = time.perf_counter()
module = cpp_extension.load_inline("axpy", source, functions=["axpy"], build_directory=tempfile.mkdtemp())
module.axpy(x, y, 2.0)
print(time.perf_counter() - start)
"""

_FIRST_CALL = """
import time, torch, tkjit
from tkjit.config import Settings
from tkjit.loader import loader_for
x, y = torch.randn(1000), torch.randn(1000)
loader = loader_for(Settings.from_environment())
if {is_prepared}:
    loader.runtime, loader.build_shared()
start = time.perf_counter()
tkjit.load("axpy")(x, y, 2.0)
print(time.perf_counter() - start)
"""

_PREPARE_GPU = """
import time, torch, tkjit
from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.spec import variants_of
from tkjit.compile.targets import gpu_target
loader = loader_for(Settings.from_environment())
loader.runtime, loader.build_shared(on_cpu=False)
spec = tkjit.find("axpy").specs[0]
loader.target = lambda *device: gpu_target("90a")
start = time.perf_counter()
loader.open_glue([spec], lambda: (spec, variants_of(spec)[0], "cuda", 0))
print(time.perf_counter() - start)
"""

_NEW_KERNELS = '''
import statistics, time, torch, tkjit
from tkjit import InOut, Tensor
from tkjit.compile.targets import gpu_target
from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.spec import Variant

SOURCE = """
#include <tkjit/gl.h>
__global__ void scale(const __grid_constant__ Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.x.cols()) g.x[i] *= FACTOR;
}
"""
loader = loader_for(Settings.from_environment())
loader.runtime
seconds = []
for factor in range(2, 10):
    @tkjit.kernel(SOURCE.replace("FACTOR", str(factor)), entry="scale", grid="cdiv(N, 256)", block=256)
    def scale(x: InOut[Tensor, "float32", "N"]) -> None: ...
    start = time.perf_counter()
    loader.open(loader.launcher_plan(scale.specs[0], Variant(), gpu_target("90a")))
    seconds.append(time.perf_counter() - start)
print(statistics.median(seconds[1:]))
'''


def run() -> list[Row]:
    """Time the build of the runtime, and first calls: with the shared parts cached, and with an empty cache."""
    stock, prepared_cpu, empty = interleaved(
        [
            lambda: in_fresh_process(_LOAD_INLINE),
            lambda: _cold(_FIRST_CALL.format(is_prepared=True)),
            lambda: _cold(_FIRST_CALL.format(is_prepared=False)),
        ],
        RUNS,
    )
    bare_nvcc, prepared, another = interleaved(
        [_bare_nvcc, lambda: _cold(_PREPARE_GPU), lambda: _cold(_NEW_KERNELS)], RUNS
    )
    pybind11, runtime = interleaved([_bare_pybind11, _runtime], RUNS)
    peer = "stock load_inline"
    return [
        Row("axpy, first call on the CPU, what all kernels share cached", peer, prepared_cpu, stock, "s", 0.025),
        Row("axpy, first call on the CPU, empty cache", peer, empty, stock, "s", 0.25),
        Row(
            "axpy, glue and launcher for sm_90a, what all kernels share cached",
            "nvcc, the same launcher",
            prepared,
            bare_nvcc,
            "s",
            0.35,
        ),
        Row("the launcher of another new kernel for sm_90a", "nvcc, axpy's launcher", another, bare_nvcc, "s", 0.05),
        Row("the runtime, once per environment", "g++ -O2, pybind11 alone", runtime, pybind11, "s", 1.1),
    ]


def _cold(code: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        return in_fresh_process(code, TKJIT_CACHE=cache)


def _toolchain(directory: Path) -> Toolchain:
    return Toolchain(Settings.from_environment(), directory / "tools.json")


def _bare_nvcc() -> float:
    """The time of nvcc for the launcher that tkjit renders, with the same flags."""
    spec = tkjit.find("axpy").specs[0]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        tools, target = _toolchain(directory), gpu_target("90a")
        source = directory / "launcher.cu"
        source.write_text(tkjit.find("axpy").render().launcher)
        source_file = spec.sources[0][1].path
        assert source_file is not None, "a bundled kernel's source is a file"
        flags = launcher_flags(spec, target, source_file.parent)
        command = tools.command(target, flags, source, directory / "launcher.so", directory / "launcher.d")
        return timed(lambda: subprocess.run(command, check=True, capture_output=True))


def _bare_pybind11() -> float:
    """The time of g++ for an empty pybind11 module."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        source = directory / "empty.cpp"
        source.write_text("#include <pybind11/pybind11.h>\nPYBIND11_MODULE(empty, module) {}\n")
        include = [sysconfig.get_path("include"), str(Path(torch.__file__).parent / "include")]
        command = [str(_toolchain(directory).cxx.path), "-O2", "-std=c++20", "-fPIC", "-shared"]
        command += [*(f"-I{path}" for path in include), str(source), "-o", str(directory / "empty.so")]
        return timed(lambda: subprocess.run(command, check=True, capture_output=True))


def _runtime() -> float:
    code = """
import time, torch
from tkjit.config import Settings
from tkjit.loader import loader_for
loader = loader_for(Settings.from_environment())
start = time.perf_counter()
loader.runtime
print(time.perf_counter() - start)
"""
    return _cold(code)
