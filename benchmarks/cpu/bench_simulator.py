"""Measures the simulator: compile time, launch cost, barriers and shuffles per second, GEMM, softmax, bounds checks.

    python benchmarks/cpu/bench_simulator.py            # a table
    python benchmarks/cpu/bench_simulator.py --json     # the same as JSON

Times are wall-clock medians; run it on an idle machine. There is one worker unless the name has another number.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.simulator.compiled import Library, compile_source

SMALL_KERNEL = """
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tkjit/shared_memory.cuh>
__global__ void axpy(const __nv_bfloat16* x, __nv_bfloat16* y, float alpha, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __nv_bfloat16(alpha * float(x[i]) + float(y[i]));
}
extern "C" __attribute__((visibility("default"))) const char* run(__nv_bfloat16* x, __nv_bfloat16* y, int n) {
    return tkjit::sim::launch(axpy, (n + 255) / 256, 256, 0, x, y, 2.0f, n);
}
"""

KERNELS = """
#include "{sources}/tensor_core.cu"
#include <time.h>
static double clock_us() {{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}}
__global__ void barriers(int* x, int rounds) {{
    for (int i = 0; i < rounds; i++) __syncthreads();
    x[threadIdx.x] = rounds;
}}
__global__ void shuffles(int* x, int rounds) {{
    int value = threadIdx.x;
    for (int i = 0; i < rounds; i++) value += __shfl_xor_sync(~0u, value, 1);
    x[threadIdx.x] = value;
}}
__global__ void nothing(int* x) {{ x[threadIdx.x]++; }}
__global__ void gemm_simple(const float* a, const float* b, float* c, int n, int k) {{
    __shared__ float a_tile[16][16], b_tile[16][16];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int start = 0; start < k; start += 16) {{
        a_tile[y][x] = a[row * k + start + x];
        b_tile[y][x] = b[(start + y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
    }}
    c[row * n + column] = sum;
}}
__global__ void softmax(const float* x, float* y, int columns) {{
    __shared__ float partial[32];
    const auto reduce = [&](float value, auto combine) {{
        for (int offset = 16; offset; offset /= 2) value = combine(value, __shfl_xor_sync(~0u, value, offset));
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
        __syncthreads();
        value = partial[threadIdx.x % 8];
        for (int offset = 4; offset; offset /= 2) value = combine(value, __shfl_xor_sync(~0u, value, offset));
        __syncthreads();
        return value;
    }};
    const float* row = x + size_t(blockIdx.x) * columns;
    float* result = y + size_t(blockIdx.x) * columns;
    float largest = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < columns; i += 256) largest = fmaxf(largest, row[i]);
    largest = reduce(largest, [](float a, float b) {{ return fmaxf(a, b); }});
    for (int i = threadIdx.x; i < columns; i += 256) sum += __expf(row[i] - largest);
    sum = reduce(sum, [](float a, float b) {{ return a + b; }});
    for (int i = threadIdx.x; i < columns; i += 256) result[i] = __expf(row[i] - largest) / sum;
}}
LAUNCHER(barriers, barriers, LIST(int* x, int rounds), x, rounds)
LAUNCHER(shuffles, shuffles, LIST(int* x, int rounds), x, rounds)
LAUNCHER(nothing, nothing, LIST(int* x), x)
LAUNCHER(gemm_simple, gemm_simple, LIST(float* a, float* b, float* c, int n, int k), a, b, c, n, k)
LAUNCHER(softmax, softmax, LIST(float* x, float* y, int columns), x, y, columns)
EXPORT double launch_us(int* x, int launches) {{
    const double start = clock_us();
    for (int i = 0; i < launches; i++) tkjit::sim::launch(nothing, 1, 256, 0, x);
    return (clock_us() - start) / launches;
}}
"""


LAYOUTS = """
#include <tkjit/launcher.h>
using Layout = tkjit::gl<float>;
__global__ void axpy(Layout x, Layout y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < y.cols()) y[i] = 2 * x[i] + y[i];
}
__global__ void gemm(Layout a, Layout b, Layout c) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < a.cols(); i++) sum += a(row, i) * b(i, col);
    c(row, col) = sum;
}
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT void set_workers(int workers) { tkjit::sim::set_workers(workers); }
EXPORT const char* run_axpy(const unsigned* dims, size_t, float* x, float* y, int n) {
    return tkjit::sim::launch(axpy, dims[0], dims[3], 0, Layout{x, {1, 1, 1, n}}, Layout{y, {1, 1, 1, n}});
}
EXPORT const char* run_gemm(const unsigned* dims, size_t, float* a, float* b, float* c, int n) {
    const auto layout = [n](float* x) { return Layout{x, {1, 1, n, n}}; };
    return tkjit::sim::launch(gemm, dim3(dims[0], dims[1]), dim3(dims[3], dims[4]), 0, layout(a), layout(b), layout(c));
}
"""


def median_seconds(function: Callable[[], object], repeats: int) -> float:
    """The median of ``repeats`` runs after a warm-up run."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return median(times)


def compile_seconds(directory: Path) -> float:
    source = directory / "small.cu"
    source.write_text(SMALL_KERNEL)
    return median_seconds(lambda: compile_source(source, directory), 5)


def measure(library: Library, workers: int, repeats: int) -> dict[str, float]:
    """Measure figures by name; the name ends with the unit."""
    library.functions.set_workers(workers)
    suffix = f", {workers} workers" if workers > 1 else ""
    figures: dict[str, float] = {}
    counters = np.zeros(1024, np.int32)
    if workers == 1:
        launch_us = library.functions.launch_us
        launch_us.restype = ctypes.c_double
        figures["launch of one block of 256 threads, us"] = median(
            launch_us(counters.ctypes.data_as(ctypes.c_void_p), 1000) for _ in range(repeats)
        )
        for name in ("barriers", "shuffles"):
            for threads in (32, 256, 1024):
                launch = partial(library.launch, name, 1, threads, counters, 2000)
                seconds = median_seconds(launch, repeats)
                figures[f"{name} a second, {threads} threads, M"] = threads * 2000 / seconds / 1e6
    n = 512
    a, b = np.random.default_rng(0).standard_normal((2, n, n)).astype(np.float32)
    c = np.zeros((n, n), np.float32)
    seconds = median_seconds(lambda: library.launch("gemm_simple", (32, 32), (16, 16), a, b, c, n, n), repeats)
    figures[f"GEMM 512^3 float, one output a thread{suffix}, ms"] = 1e3 * seconds
    a16, b16 = (_aligned(x.view(np.uint32) >> 16) for x in (a, b))
    shared = 2 * 2 * 64 * 40 * 2
    run = lambda: library.launch("gemm_bfloat16", (8, 8), 128, a16, b16, c, n, n, shared=shared)  # noqa: E731
    figures[f"GEMM 512^3 bfloat16, mma tiles{suffix}, ms"] = 1e3 * median_seconds(run, repeats)
    x = np.random.default_rng(0).standard_normal((1024, 4096)).astype(np.float32)
    y = np.zeros_like(x)
    seconds = median_seconds(lambda: library.launch("softmax", 1024, 256, x, y, 4096), repeats)
    figures[f"softmax 1024 x 4096{suffix}, ms"] = 1e3 * seconds
    return figures


def measure_bounds(directory: Path, repeats: int) -> dict[str, float]:
    """Measure kernels whose accesses are all indices, without and with bounds checks, in turns."""
    source = directory / "layouts.cu"
    source.write_text(LAYOUTS)
    libraries = []
    for name, flags in (("plain", ()), ("checked", ("-DTKJIT_SIM_BOUNDS",))):
        (directory / name).mkdir()
        libraries.append(compile_source(source, directory / name, *flags))
        libraries[-1].functions.set_workers(1)
    n = 256
    a, b, c = np.random.default_rng(0).standard_normal((3, n, n)).astype(np.float32)
    x, y = np.random.default_rng(0).standard_normal((2, 1 << 20)).astype(np.float32)
    runs = {
        "axpy of 2^20 by layouts": lambda library: library.launch("axpy", x.size // 256, 256, x, y, x.size),
        "GEMM 256^3 by layouts, one output a thread": lambda library: library.launch(
            "gemm", (16, 16), (16, 16), a, b, c, n
        ),
    }
    figures: dict[str, float] = {}
    for name, run in runs.items():
        times: list[list[float]] = [[], []]
        for _ in range(repeats):
            for library, taken in zip(libraries, times, strict=True):
                taken.append(median_seconds(partial(run, library), 1))
        plain, checked = (median(taken) for taken in times)
        figures[f"{name}, ms"] = 1e3 * plain
        figures[f"{name}, indices compared, ms"] = 1e3 * checked
        figures[f"{name}, indices compared, times as long"] = checked / plain
    return figures


def _aligned(words: np.ndarray) -> np.ndarray:
    """A 16-bit copy of ``words`` that is aligned to 16 bytes."""
    room = np.zeros(2 * words.size + 16, np.uint8)
    start = -room.ctypes.data % 16
    result = room[start : start + 2 * words.size].view(np.uint16).reshape(words.shape)
    result[...] = words
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        figures = {"compile time of a small bfloat16 kernel, s": compile_seconds(directory)}
        source = directory / "kernels.cu"
        source.write_text(KERNELS.format(sources=Path(__file__).parents[2] / "tests" / "support" / "simulator"))
        library = compile_source(source, directory)
        for workers in (1, 2):
            figures |= measure(library, workers, options.repeats)
        figures |= measure_bounds(directory, options.repeats)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for figure, value in figures.items():
        print(f"{figure:72} {value:10.3g}")


if __name__ == "__main__":
    main()
