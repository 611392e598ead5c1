"""A fresh process with everything in the cache: ``load`` and the first call, after ``import torch``."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from benchmarks.harness import Row, in_fresh_process, interleaved, start_of_python
from tkjit import find
from tkjit.cache.entry import read_dependencies
from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.spec import Variant

HEADERS = 300
LIMIT = 0.26  # the 0.25 of 2026-11-22 (956098b) plus a twentieth, because two runs differ by that much
_CODE = """
import time, torch, tkjit
tkjit.load  # the import is not timed
x, y = torch.randn(1000), torch.randn(1000)
start = time.perf_counter()
tkjit.load("{name}")(x, y, 2.0)
print((time.perf_counter() - start) * 1e3)
"""
# The checks run in a process that is not timed, because an audit hook takes time.
_WATCHED = """
import sys, torch, tkjit
tkjit.load
x, y = torch.randn(1000), torch.randn(1000)
started = []
starts = ("subprocess.Popen", "os.posix_spawn", "os.fork")
sys.addaudithook(lambda event, _: started.append(event) if event in starts else None)
tkjit.load("{name}")(x, y, 2.0)
assert not started, started
for module in ("torch.utils.cpp_extension", "jinja2", "filelock", "platformdirs"):
    assert module not in sys.modules, module
print(0)
"""
_SPEC = """
import tkjit
from tkjit import In, InOut, Tensor


@tkjit.kernel("NAME.cu", entry="NAME<T>", grid="cdiv(N, 256)", block=256,
              variants={"T": ("float32", "bfloat16")})
def NAME(x: In[Tensor, "T", "N"], y: InOut[Tensor, "T", "N"], alpha: float = 1.0) -> Tensor:
    return y.add_(x, alpha=alpha)
"""
_KERNEL = """
template <typename T>
__global__ void NAME(const __grid_constant__ Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.y.cols()) g.y.raw_ptr[i] = T(g.alpha * float(g.x.raw_ptr[i]) + float(g.y.raw_ptr[i]));
}
"""


def run() -> list[Row]:
    """Time warm processes. The first ones build and write warm records; later ones start no process."""
    with tempfile.TemporaryDirectory() as directory:

        def first_runs(name: str) -> None:
            for code in (_CODE, _CODE, _WATCHED):
                in_fresh_process(code.format(name=name), TKJIT_KERNEL_PATH=directory)

        def warm(name: str) -> float:
            return in_fresh_process(_CODE.format(name=name), TKJIT_KERNEL_PATH=directory)

        first_runs("axpy")
        own = HEADERS - _headers_of_axpy()
        for name, count in (("in_all", own), ("of_its_own", HEADERS)):
            _write_kernel(Path(directory), name, count)
            first_runs(name)
        runs = [partial(warm, name) for name in ("axpy", "in_all", "of_its_own")]
        plain, in_all, of_its_own, start = interleaved([*runs, start_of_python], runs=15)
    what = "load and first call on the CPU, warm"
    return [
        Row(f"axpy, {what}", "python -c pass", plain, start, "ms"),
        Row(f"a kernel that includes {HEADERS} headers, {what}", "python -c pass", in_all, start, "ms", limit=LIMIT),
        Row(f"a kernel with {HEADERS} of its own, {2 * HEADERS - own} in all, {what}", "", of_its_own, start, "ms"),
    ]


def _headers_of_axpy() -> int:
    """The number of files that the compiler reports for axpy, from tkjit and the system."""
    loader = loader_for(Settings.from_environment())
    spec = find("axpy").specs[0]
    entry = loader.launcher(spec, Variant((("T", "float32"),)), loader.target("cpu"))
    return len(read_dependencies(entry.directory, entry.manifest)["files"])


def _write_kernel(directory: Path, name: str, count: int) -> None:
    """Write a kernel like axpy whose source includes ``count`` headers of its own."""
    parts = directory / f"parts_of_{name}"
    parts.mkdir()
    for number in range(count):
        (parts / f"part_{number}.h").write_text(f"#pragma once\nconstexpr int part_{number} = {number};\n")
    includes = "".join(f'#include "{parts.name}/part_{number}.h"\n' for number in range(count))
    (directory / f"{name}.cu").write_text(includes + _KERNEL.replace("NAME", name))
    (directory / f"{name}.py").write_text(_SPEC.replace("NAME", name))
