"""``bench`` and ``tune`` on a GPU: plausible times, hidden host costs, limits of the device, failing peers."""

from __future__ import annotations

import time

import pytest
import torch

import tkjit
from tkjit import In, Out, Tensor
from tkjit.benchmark.roofline import measured

pytestmark = pytest.mark.gpu


def slow_to_queue(x):
    time.sleep(3e-4)
    return 2 * x


def broken(x):
    raise ValueError("not for GPUs")


@tkjit.kernel(
    "__global__ void twice(Globals g) { const int i = blockIdx.x * 256 + threadIdx.x; g.y[i] = 2 * g.x[i]; }",
    entry="twice",
    grid="N // 256",
    block=256,
    peers={"slow to queue": slow_to_queue, "broken": broken},
)
def twice(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor:
    return 2 * x


def test_limits_of_the_device(gpu):
    limits = measured(torch.device(gpu), torch.bfloat16)
    assert 1e11 < limits.bytes_per_s < 2e13 and 1e13 < limits.flops_per_s < 1e16
    assert measured(torch.device(gpu), torch.float8_e4m3fn).flops_per_s >= 0
    assert measured(torch.device(gpu), None).flops_per_s == 0


def test_a_large_copy_comes_near_the_measured_bandwidth(gpu):
    (found,) = tkjit.bench(twice, {"N": 1 << 28}, device=gpu, rounds=5)
    assert 0.5 < found.share_of_roofline < 1.2
    assert found.device == torch.cuda.get_device_name(gpu)


def test_the_cost_of_a_call_on_the_host_does_not_count(gpu):
    (found,) = tkjit.bench(twice, {"N": 1 << 16}, device=gpu, rounds=5)
    assert found.peers["slow to queue"] < 1e-4  # each call sleeps for 0.3 ms
    assert found.seconds < 1e-4


def test_a_peer_that_raises_is_reported_and_the_others_are_measured(gpu):
    (found,) = tkjit.bench(twice, {"N": 1 << 16}, device=gpu, rounds=2)
    assert list(found.missing) == ["broken"] and list(found.peers) == ["slow to queue"]


def test_gemm_is_measured_beside_cublas_and_inductor(gpu):
    (found,) = tkjit.bench(
        "gemm", {"M": 1024, "N": 1024, "K": 1024}, types=["bfloat16"], device=gpu, inductor=True, rounds=5
    )
    assert {"cuBLAS", "Inductor"} <= {*found.peers, *found.missing} and "cuBLAS" in found.peers
    assert 0 < found.share_of_roofline < 1.2 and found.flops == 2 * 1024**3


def test_a_tuned_gemm_is_used_and_right(gpu, cache):
    (choice,) = tkjit.tune("gemm", {"M": 512, "N": 512, "K": 512}, types=["bfloat16"], device=gpu, rounds=3)
    assert choice.seconds and choice.device == torch.cuda.get_device_name(gpu)
    a, b = (torch.randn(300, 300, device=gpu).bfloat16() for _ in range(2))
    torch.testing.assert_close(tkjit.load("gemm")(a, b).float(), a.float() @ b.float(), rtol=0.02, atol=0.2)


def test_a_gpu_that_does_not_exist_is_reported(gpu):
    with pytest.raises(tkjit.SpecError, match="there is no cuda:63; this machine has"):
        tkjit.bench(twice, {"N": 256}, device="cuda:63")
