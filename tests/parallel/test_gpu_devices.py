"""Multi-device kernels on GPUs: two club members on a single GPU, or all GPUs of the machine."""

from __future__ import annotations

import pytest
import torch

import tkjit

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["one device twice", "all devices"])
def devices(gpu, request) -> list[str]:
    """The devices over which each call runs."""
    if request.param == "one device twice":
        return [gpu, gpu]
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU; run on a machine with several")
    return [f"cuda:{i}" for i in range(torch.cuda.device_count())]


@pytest.fixture
def club(devices) -> tkjit.Club:
    tkjit.enable_peer_access(devices)
    return tkjit.Club(devices)


def parts(devices: list[str], *shape: int, dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator).to(device, dtype) for device in devices]


def signals(devices: list[str]) -> list[torch.Tensor]:
    return [torch.zeros(64 * len(devices), dtype=torch.int32, device=device) for device in devices]


@pytest.mark.parametrize("n", [1, 1000, 1 << 20])
def test_all_reduce(devices, club, n):
    x, flags = parts(devices, n), signals(devices)
    wanted = sum(part.float().cpu() for part in x).bfloat16()
    for y in tkjit.load("all_reduce_one_shot")(x, flags, club=club):
        assert torch.equal(y.cpu(), wanted)
    tkjit.load("all_reduce")(x, flags, club=club)
    assert all(torch.equal(part.cpu(), wanted) for part in x)
    assert all(not flag.any() for flag in flags)


def test_all_gather_and_reduce_scatter(devices, club):
    x, flags = parts(devices, 64, 33), signals(devices)
    wanted = torch.cat([part.cpu() for part in x])
    assert all(torch.equal(y.cpu(), wanted) for y in tkjit.load("all_gather")(x, flags, club=club))
    x = parts(devices, 64 * len(devices), 32)
    shares = sum(part.float().cpu() for part in x).bfloat16().chunk(len(devices))
    for y, share in zip(tkjit.load("reduce_scatter")(x, flags, club=club), shares, strict=True):
        assert torch.equal(y.cpu(), share)


def test_gemm_all_reduce(devices, club):
    a, b = parts(devices, 500, 256), parts(devices, 256, 300)
    c, partial = parts(devices, 500, 300), parts(devices, 500, 300, dtype=torch.float32)
    tkjit.load("gemm_all_reduce")(a, b, c, partial, signals(devices), club=club)
    wanted = sum(left.float().cpu() @ right.float().cpu() for left, right in zip(a, b, strict=True))
    torch.testing.assert_close(c[0].float().cpu(), wanted, atol=0.5, rtol=0.02)
    assert all(torch.equal(part.cpu(), c[0].cpu()) for part in c)


def test_a_club_launches_on_its_streams(devices):
    streams = [torch.cuda.Stream(device) for device in devices]
    club = tkjit.Club(devices, streams)
    x, flags = parts(devices, 1000), signals(devices)
    torch.cuda.synchronize()
    wanted = sum(part.float().cpu() for part in x).bfloat16()
    tkjit.load("all_reduce")(x, flags, club=club)
    for stream in streams:
        stream.synchronize()
    assert all(torch.equal(part.cpu(), wanted) for part in x)


def test_functions_run_on_their_device(devices, club):
    seen = [torch.device("cpu")] * len(devices)

    def note(dev_idx: int) -> None:
        seen[dev_idx] = torch.empty(1, device="cuda").device

    club.execute(note)
    assert [str(device) for device in seen] == devices


def test_parts_on_devices_outside_the_club_are_rejected(devices, club):
    x = parts(["cpu"] * len(devices), 8)
    with pytest.raises(tkjit.ArgumentError, match="the tensors are on other devices"):
        tkjit.load("all_reduce")(x, signals(["cpu"] * len(devices)), club=club)
