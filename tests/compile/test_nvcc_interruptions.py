"""A killed or interrupted warm-up ends all processes of nvcc and NVRTC."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from support.waiting import wait_until

from tkjit.system.process import name_of, working_in

pytestmark = pytest.mark.nvcc
SPEC = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel("slow.cu", entry="slow", args=True, grid=1, block=32, compiler="COMPILER")
def slow(x: InOut[Tensor, "float32", "N"]) -> None: ...
"""
# keeps the optimiser busy for much longer than the test: NVRTC takes 4 s for one addend and over 90 s for all
SOURCE = """
template <int N, int K> __device__ float step(float x) {
    return step<N - 1, K>(x * x + N) * (x - N * K) + step<N - 1, K>(x - N);
}
template <> __device__ float step<0, 1>(float x) { return x; }
template <> __device__ float step<0, 2>(float x) { return x + 1; }
template <> __device__ float step<0, 3>(float x) { return x - 1; }
template <> __device__ float step<0, 4>(float x) { return x * 2; }
__global__ void slow(float* x) {
    const float y = x[threadIdx.x];
    x[threadIdx.x] = step<17, 1>(y) + step<17, 2>(y) + step<17, 3>(y) + step<17, 4>(y);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "child"), [("nvcc", "cicc"), pytest.param("nvrtc", "python", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGKILL, id="killed"), pytest.param(signal.SIGINT, id="interrupted", marks=pytest.mark.slow)],
)
def test_no_compiler_survives(number, compiler, child, cache_with_runtime, operators, tmp_path, monkeypatch):
    root = cache_with_runtime
    operators(root)
    (tmp_path / "slow.py").write_text(SPEC.replace("COMPILER", compiler))
    (tmp_path / "slow.cu").write_text(SOURCE)
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    with subprocess.Popen([sys.executable, "-m", "tkjit", "warmup", "slow", "--arch", "90a"]) as process:
        try:
            wait_until(lambda: any(str(name_of(one)).startswith(child) for one in working_in(root)), 30)
            process.send_signal(number)
            assert process.wait(timeout=30) == (130 if number == signal.SIGINT else -number)
        finally:
            process.kill()
    wait_until(lambda: not working_in(root), 30)
    wait_until(lambda: not list(root.glob("v1/*/*/*/.staging-*")), 30)
    assert not list(root.glob("v1/*/sm_90a/slow-*/[!.]*")), "the build finished before the signal"
