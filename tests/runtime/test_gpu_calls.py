"""Calls on a GPU: torch.compile, graphs, streams, the allocator, the profiler, other frameworks and errors."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch

import tkjit

# torch 2.11 gives this warning in Python 3.12 when inductor is imported
DEPRECATED = "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings(DEPRECATED)]


def test_compiled_with_inductor(gpu):
    gemm, softmax = tkjit.load("gemm"), tkjit.load("softmax")
    function = torch.compile(lambda a, b: softmax(gemm(a, b)) * 2, fullgraph=True, dynamic=True)
    for m, n in ((128, 96), (256, 64)):
        a, b = torch.randn(m, 80, device=gpu), torch.randn(80, n, device=gpu)
        torch.testing.assert_close(function(a, b), (a @ b).softmax(-1) * 2, rtol=1e-3, atol=1e-4)


def test_gradients(gpu):
    gemm = tkjit.load("gemm")
    a, b = (torch.randn(64, 64, device=gpu, requires_grad=True) for _ in range(2))
    gemm(a, b).square().sum().backward()
    expected = torch.autograd.grad((a @ b).square().sum(), (a, b))
    torch.testing.assert_close((a.grad, b.grad), expected, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("through_operator", [False, True])
def test_capture_and_replay(gpu, through_operator):
    axpy, gemm = tkjit.load("axpy"), tkjit.load("gemm")
    if through_operator:
        gemm = gemm.operator
    a, b = torch.randn(64, 64, device=gpu), torch.randn(64, 64, device=gpu)
    y = torch.zeros(64, device=gpu)
    gemm(a, b)
    axpy(b[0], y)
    y.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = gemm(a, b)
        axpy(c[0], y)
    a.copy_(torch.randn(64, 64))
    y.zero_()
    graph.replay()
    torch.testing.assert_close(c, a @ b, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(y, c[0])


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")  # torch itself captures an empty graph
def test_cuda_graphs_of_compiled_code(gpu):
    softmax = tkjit.load("softmax")
    function = torch.compile(lambda x: softmax(x) + 1, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        x = torch.randn(32, 128, device=gpu)
        torch.testing.assert_close(function(x).clone(), x.softmax(-1) + 1)


def test_memory_in_use_by_another_stream_is_not_reused(gpu):
    """A tensor is freed while another stream still uses it. ``record_stream`` keeps its memory from being reused."""
    axpy = tkjit.load("axpy")
    x, y = torch.ones(1 << 20, device=gpu), torch.zeros(1 << 20, device=gpu)
    axpy(x, y)
    y.zero_()
    side = torch.cuda.Stream(gpu)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
    address = x.data_ptr()
    axpy(x, y, stream=side)
    del x
    other = torch.full((1 << 20,), 7.0, device=gpu)  # would get the same address
    assert other.data_ptr() != address
    torch.cuda.synchronize()
    assert bool((y == 1).all())


def test_an_output_can_be_recorded_and_resized(gpu):
    c = tkjit.load("gemm")(torch.randn(8, 8, device=gpu), torch.randn(8, 8, device=gpu))
    c.record_stream(torch.cuda.Stream(gpu))
    c.resize_(100)
    assert c.shape == (100,)


def test_the_profiler_shows_the_kernel_and_the_operator(gpu):
    gemm = tkjit.load("gemm")
    a = torch.randn(256, 256, device=gpu)
    gemm(a, a)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        gemm(a, a)
        torch.cuda.synchronize()
    names = [event.key for event in profile.key_averages()]
    assert "tkjit::gemm" in names
    assert any("gemm<" in name for name in names), names


def test_cupy_arrays(gpu):
    cupy = pytest.importorskip("cupy", reason="pip install cupy-cuda13x to run this")
    a = cupy.random.standard_normal((64, 64), dtype=cupy.float32)
    c = tkjit.load("gemm")(a, a)
    assert type(c) is cupy.ndarray
    assert bool(cupy.allclose(c, a @ a, rtol=1e-3, atol=1e-3))


CULPRIT = """
import torch, tkjit
from tkjit import InOut, Tensor
@tkjit.kernel("__global__ void f(Globals g) { if (g.bad) g.x.raw_ptr[1ull << 40] = 1; }", entry="f", grid=3, block=64)
def reach(x: InOut[Tensor, "float32", "N"], bad: bool) -> Tensor: ...
x = torch.zeros(4, device="cuda")
reach(x, False)
for bad in (False, True, False):
    try:
        reach(x, bad)
        print("ok", flush=True)
    except tkjit.LaunchError as error:
        print(error, flush=True)
"""


def test_illegal_access_is_attributed_and_the_device_is_lost(gpu, monkeypatch):
    monkeypatch.setenv("TKJIT_SYNC", "1")
    done = subprocess.run([sys.executable, "-c", CULPRIT], capture_output=True, text=True)
    first, culprit, after = done.stdout.splitlines()
    assert first == "ok"
    # nvcc's launchers call CUDA's runtime, and NVRTC's the driver
    error = r"\((cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS)\)"
    assert re.match(rf"reach: kernel: an illegal memory access was encountered {error}", culprit)
    assert "the device is lost to this process" in culprit and "grid (3, 1, 1), block (64, 1, 1)" in culprit
    assert "the device is lost to this process" in after
