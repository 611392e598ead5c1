"""``python -m tkjit run``: whole programs with several sources, on the CPU."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.waiting import wait_until

from tkjit.cli import main
from tkjit.system.start_time import start_time

pytestmark = pytest.mark.compiles
HEADER = """#pragma once
#include <cstdio>
void launch_fill(float* x, int n);
template <class T> inline void launch_one(void (*kernel)(T*, int), T* x, int n) { kernel<<<1, 32>>>(x, n); }
"""
FILL = """#include "parts.cuh"
__global__ void fill(float* x, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = VALUE; }
void launch_fill(float* x, int n) { fill<<<1, 64>>>(x, n); }
"""
MAIN = """#include "parts.cuh"
#include <cstdlib>
__global__ void add_lane(float* x, int n) {
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    if (threadIdx.x < n) x[threadIdx.x] += lane;
}
int main(int argc, char** argv) {
    const int n = atoi(argv[1]);
    float* x;
    cudaMalloc(&x, n * sizeof(float));
    launch_fill(x, n);
    launch_one(add_lane, x, n);
    if (cudaDeviceSynchronize() != cudaSuccess) return 7;
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    printf("%s %.0f of %d\\n", argv[2], sum, argc);
    return sum > 100 ? 3 : 0;
}
"""


@pytest.fixture
def sources(tmp_path, session_cache):
    for name, text in (("main.cu", MAIN), ("fill.cu", FILL), ("parts.cuh", HEADER)):
        (tmp_path / name).write_text(text)
    return [str(tmp_path / "main.cu"), str(tmp_path / "fill.cu")]


def test_run_links_sources_and_passes_arguments_and_the_exit_status(sources, capfd):
    words = ["run", *sources, "-D", "VALUE=2", "--"]
    assert main([*words, "10", "--sum"]) == 0
    assert capfd.readouterr().out == "--sum 65 of 3\n"
    assert main([*words, "20", "-h"]) == 3
    assert capfd.readouterr().out == "-h 230 of 3\n"


def test_edited_header_causes_a_rebuild(sources, tmp_path, capfd):
    words = ["run", *sources, "-D", "VALUE=1", "--", "2", "x"]
    assert main(words) == 0
    (tmp_path / "parts.cuh").write_text(HEADER.replace("<<<1, 32>>>", "<<<1, 1>>>"))
    assert main(words) == 0
    assert capfd.readouterr().out == "x 3 of 3\nx 2 of 3\n"


LANES = """#ifdef __CUDA_ARCH__
__device__ inline unsigned lane() { unsigned x; asm("mov.u32 %0, %%laneid;" : "=r"(x)); return x; }
#endif
"""
PRINTS_A_LANE = """#include <NAME>
#include <cstdio>
__global__ void print_lane() { if (threadIdx.x == 3) printf("%u\\n", lane()); }
int main() { print_lane<<<1, 32>>>(); return cudaDeviceSynchronize(); }
"""


def test_headers_in_include_directories_are_adapted(tmp_path, session_cache, capfd):
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "lanes.cuh").write_text(LANES)
    source = tmp_path / "main.cu"
    source.write_text(PRINTS_A_LANE.replace("NAME", "lanes.cuh"))
    assert main(["run", str(source), "-I", str(tmp_path / "headers")]) == 0
    assert capfd.readouterr().out == "3\n"


def test_curand_headers_are_found(tmp_path, session_cache, monkeypatch, capfd):
    monkeypatch.delenv("CURAND_ROOT", raising=False)
    source = tmp_path / "main.cu"
    source.write_text(PRINTS_A_LANE.replace("NAME", "curand_lanes.h"))
    assert main(["run", str(source)]) == 1
    assert (
        "curand_lanes.h is a header of cuRAND; set CURAND_ROOT, or install it: python -m tkjit"
        in capfd.readouterr().err
    )
    (tmp_path / "curand").mkdir()
    (tmp_path / "curand" / "curand_kernel.h").touch()
    (tmp_path / "curand" / "curand_lanes.h").write_text('#include "curand_asks.h"\n')
    (tmp_path / "curand" / "curand_asks.h").write_text(LANES)
    monkeypatch.setenv("CURAND_ROOT", str(tmp_path / "curand"))
    assert main(["run", str(source)]) == 0
    assert capfd.readouterr().out == "3\n"


def test_compile_error_names_the_source_line(sources, tmp_path, capsys):
    (tmp_path / "fill.cu").write_text(FILL.replace("x[i] = VALUE", "x[i] = NOTHING"))
    assert main(["run", *sources, "--", "1", "x"]) == 1
    printed = capsys.readouterr().err
    assert f"{tmp_path / 'fill.cu'}:2:" in printed and "NOTHING" in printed


def test_missing_file_is_reported(capsys):
    assert main(["run", "nowhere.cu"]) == 1
    assert "nowhere.cu: no such file" in capsys.readouterr().err


def test_python_file_is_rejected(capsys):
    assert main(["run", __file__]) == 1
    assert f"test_run.py is a Python file, but run takes CUDA sources; use python {__file__}" in capsys.readouterr().err


def test_program_continues_after_a_fault_while_other_blocks_wait(tmp_path, session_cache, capfd):
    (tmp_path / "faulty.cu").write_text("""
#include <cstdio>
#include <cstdlib>
__global__ void wait(int* arrived, const int* zero) {
    __shared__ int own;
    own = blockIdx.x;
    if (blockIdx.x == 19) arrived[1] = own / *zero;
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < 20) {}
}
int main() {
    int* memory;
    cudaMalloc(&memory, 3 * sizeof(int));
    cudaMemset(memory, 0, 3 * sizeof(int));
    wait<<<20, 32>>>(memory, memory + 2);
    if (cudaDeviceSynchronize() == cudaSuccess) return 1;
    std::puts("it has failed");
    std::exit(3);
}
""")
    assert main(["run", str(tmp_path / "faulty.cu")]) == 3
    assert "it has failed" in capfd.readouterr().out


WAITS = """
#include <cstdio>
#include <unistd.h>
int main() {
    std::printf("%d\\n", getpid());
    std::fflush(stdout);
    sleep(60);
}
"""


def test_program_ends_when_its_command_is_killed(tmp_path, session_cache):
    (tmp_path / "waits.cu").write_text(WAITS)
    command = [sys.executable, "-m", "tkjit", "run", str(tmp_path / "waits.cu")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        program = int(running.stdout.readline())
        assert start_time(program) is not None
        running.kill()
    wait_until(lambda: start_time(program) is None, 5, "the program ends")


QUERIES = """
#include <cuda_runtime.h>
#include <cstdio>
#if !defined(__CUDA_RUNTIME_H__) || !defined(__DRIVER_TYPES_H__)
#error "helper_cuda.h of NVIDIA's samples declares its functions only if these are defined"
#endif
__global__ void f(float* x) { x[threadIdx.x] = 1; }
int main() {
    int mode = -1, pitch, grid, block;
    if (cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, 0) != cudaSuccess) return 1;
    if (mode == cudaComputeModeProhibited) return 4;
    if (cudaDeviceGetAttribute(&pitch, cudaDeviceAttr(9999), 0) != cudaErrorInvalidValue) return 2;
    if (cudaOccupancyMaxPotentialBlockSize(&grid, &block, f, 0, 10000000) != cudaSuccess) return 3;
    std::printf("%d %d\\n", mode, block);
}
"""


def test_a_program_queries_the_device(tmp_path, session_cache, capfd):
    (tmp_path / "queries.cu").write_text(QUERIES)
    assert main(["run", str(tmp_path / "queries.cu")]) == 0
    assert capfd.readouterr().out == "0 1024\n"


HOST_FUNCTIONS = """
#include <cuda_runtime.h>
#include <cstdio>
void CUDART_CB after_all(cudaStream_t, cudaError_t, void* count) { ++*static_cast<int*>(count); }
void CUDART_CB next(void* count) { ++*static_cast<int*>(count); }
__global__ void wrap(unsigned* x) {
    atomicInc_system(x, 100);
    atomicDec_block(x + 1, 7);
}
int main() {
    int count = 0, can = 7, least, greatest;
    cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync | cudaDeviceMapHost);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaStreamAddCallback(stream, after_all, &count, 0);
    cudaLaunchHostFunc(stream, next, &count);
    cudaDeviceCanAccessPeer(&can, 0, 1);
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaStreamAttrValue value{};
    value.accessPolicyWindow.num_bytes = 4;
    cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &value);
    size_t bytes;
    cudaDeviceSetLimit(cudaLimitStackSize, 1024);
    cudaDeviceGetLimit(&bytes, cudaLimitStackSize);
    cudaMemPool_t pool;
    unsigned long long threshold = ~0ull;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold);
    unsigned* x;
    cudaMalloc(&x, 8);
    cudaMemset(x, 0, 8);
    wrap<<<1, 33, 0, stream>>>(x);
    cudaStreamSynchronize(stream);
    std::printf("%d %d %u %u\\n", count, can, x[0], x[1]);
}
"""


def test_host_functions_of_streams_devices_and_pools(tmp_path, session_cache, capfd):
    (tmp_path / "host.cu").write_text(HOST_FUNCTIONS)
    assert main(["run", str(tmp_path / "host.cu")]) == 0
    assert capfd.readouterr().out == "2 0 33 7\n"


@pytest.mark.nvcc
@pytest.mark.parametrize("source", [QUERIES, HOST_FUNCTIONS], ids=["queries", "host functions"])
def test_nvcc_accepts_the_same_program(loader, tmp_path, source):
    (tmp_path / "host.cu").write_text(source)
    subprocess.run([loader.toolchain.nvcc.path, "-c", "-o", tmp_path / "host.o", tmp_path / "host.cu"], check=True)
