"""A fresh process with everything in the cache: ``load`` and the first call, after ``import torch``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.harness import Row, in_fresh_process, interleaved

HEADERS = 300
_CODE = """
import sys, time, torch, tkjit
started = []
starts = ("subprocess.Popen", "os.posix_spawn", "os.fork")
sys.addaudithook(lambda event, _: started.append(event) if event in starts else None)
x, y = torch.randn(1000), torch.randn(1000)
start = time.perf_counter()
tkjit.load("{name}")(x, y, 2.0)
milliseconds = (time.perf_counter() - start) * 1e3
if "cold" not in sys.argv:
    assert not started, started
    for module in ("torch.utils.cpp_extension", "jinja2", "filelock"):
        assert module not in sys.modules, module
print(milliseconds)
"""
_SPEC = """
import tkjit
from tkjit import In, InOut, Tensor


@tkjit.kernel("many_headers.cu", entry="many_headers<T>", grid="cdiv(N, 256)", block=256,
              variants={"T": ("float32", "bfloat16")})
def many_headers(x: In[Tensor, "T", "N"], y: InOut[Tensor, "T", "N"], alpha: float = 1.0) -> Tensor:
    return y.add_(x, alpha=alpha)
"""
_KERNEL = """
template <typename T>
__global__ void many_headers(const __grid_constant__ Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < g.y.cols()) g.y.raw_ptr[i] = T(g.alpha * float(g.x.raw_ptr[i]) + float(g.y.raw_ptr[i]));
}
"""


def run() -> list[Row]:
    """The first processes may build and take notes; those after them may not, and start no process."""
    with tempfile.TemporaryDirectory() as directory:
        _write_kernel(Path(directory))

        def warm(name: str) -> float:
            return in_fresh_process(_CODE.format(name=name), TKJIT_KERNEL_PATH=directory)

        names = ["axpy", "many_headers"]
        for name in names * 2:
            code = f"import sys; sys.argv.append('cold')\n{_CODE.format(name=name)}"
            in_fresh_process(code, TKJIT_KERNEL_PATH=directory)
        plain, many = interleaved([lambda: warm("axpy"), lambda: warm("many_headers")], runs=15)
    what = "load and first call on the CPU, warm"
    return [
        Row(f"axpy, {what}", "", plain, None, "ms"),
        Row(f"a kernel that includes {HEADERS} headers, {what}", "", many, None, "ms", limit=2),
    ]


def _write_kernel(directory: Path) -> None:
    """A kernel like axpy whose source includes many headers of its own."""
    for number in range(HEADERS):
        path = directory / f"parts/part_{number}.h"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#pragma once\nconstexpr int part_{number} = {number};\n")
    includes = "".join(f'#include "parts/part_{number}.h"\n' for number in range(HEADERS))
    (directory / "many_headers.cu").write_text(includes + _KERNEL)
    (directory / "many_headers.py").write_text(_SPEC)
