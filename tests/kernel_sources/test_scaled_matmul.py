"""scaled_matmul in the simulator, for Hopper and for other GPUs: scales for matrices, rows and blocks."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit
from tkjit import ArgumentError, ShapeError

pytestmark = pytest.mark.compiles
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
# M, N and K: whole and partial tiles, rows that TMA cannot copy, several blocks that share a tile, no elements to sum
SHAPES = [(70, 40, 96), (130, 264, 640), (53, 37, 71), (40, 300, 2304), (1, 1, 1), (3, 5, 0)]


@pytest.fixture(params=sample(("80", "90a"), "90a"))
def arch(request, session_cache, monkeypatch):
    monkeypatch.setenv("TKJIT_MODEL_ARCH", request.param)
    return request.param


def scales(*shape: int) -> torch.Tensor:
    return torch.rand(shape) + 0.5


def assert_right(a, b, wide_a, wide_b, scale_a, scale_b, bias=None, dtype=torch.bfloat16):
    """Compare with a product of the matrices times their scales."""
    exact = wide_a @ wide_b.T
    summed = wide_a.abs() @ wide_b.abs().T
    if bias is not None:
        exact, summed = exact + bias.double(), summed + bias.double().abs()
    c = tkjit.load("scaled_matmul")(a, b, scale_a, scale_b, bias, dtype)
    bound = torch.finfo(dtype).eps * exact.abs() + (a.shape[1] + 4) * 2.0**-23 * summed
    assert c.dtype == dtype and bool(((c.double() - exact).abs() <= bound).all())


@pytest.mark.parametrize("arch", ["80", "90a"], indirect=True)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scales_of_matrices_and_rows(arch, shape):
    m, n, k = shape
    a, b, bias = torch.randn(m, k).to(E4M3), torch.randn(n, k).to(E4M3), torch.randn(n).bfloat16()
    for scale_a, scale_b in ((scales(1), scales(1)), (scales(m), scales(n)), (scales(1), scales(n))):
        assert_right(a, b, a.double() * scale_a[:, None], b.double() * scale_b[:, None], scale_a, scale_b, bias)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scales_of_blocks(arch, shape):
    m, n, k = shape
    a, b = torch.randn(m, k).to(E4M3), torch.randn(n, k).to(E4M3)
    scale_a, scale_b = scales(m, -(-k // 128)), scales(-(-n // 128), -(-k // 128))
    columns, rows = torch.arange(k) // 128, torch.arange(n) // 128
    assert_right(a, b, a.double() * scale_a[:, columns], b.double() * scale_b[rows][:, columns], scale_a, scale_b)


@pytest.mark.parametrize(
    ("of_a", "of_b"), [*(pytest.param(E5M2, of_b, marks=pytest.mark.slow) for of_b in (E5M2, E4M3)), (E4M3, E5M2)]
)
def test_other_types(arch, of_a, of_b):
    a, b = torch.randn(130, 300).to(of_a), torch.randn(72, 300).to(of_b)
    scale_a, scale_b = scales(130), scales(72)
    assert_right(a, b, a.double() * scale_a[:, None], b.double() * scale_b[:, None], scale_a, scale_b)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [pytest.param(torch.float16, marks=pytest.mark.slow), torch.float32])
def test_other_results(arch, dtype):
    for m, n, k in SHAPES:
        a, b, bias = torch.randn(m, k).to(E4M3), torch.randn(n, k).to(E4M3), torch.randn(n).to(dtype)
        scale_a, scale_b = scales(1), scales(n)
        wide = (a.double() * scale_a[:, None], b.double() * scale_b[:, None])
        assert_right(a, b, *wide, scale_a, scale_b, bias, dtype)


def test_a_nan_stays_in_its_row(arch):
    a, b = torch.randn(70, 96).to(E4M3), torch.randn(40, 96).to(E4M3)
    a[5, 7] = float("nan")
    c = tkjit.load("scaled_matmul")(a, b, torch.ones(1), torch.ones(1))
    assert bool(c[5].isnan().all()) and not c[:5].isnan().any() and not c[6:].isnan().any()


def test_k_is_split_as_in_gemm():
    """A spec file cannot import another, so scaled_matmul.py repeats the dims of gemm.py."""
    ours, gemms = (dict(tkjit.find(name).specs[0].derived) for name in ("scaled_matmul", "gemm"))
    for m, n, k in [(16, 4096, 14336), (128, 4096, 14336), (1024, 1024, 1024), (4096, 4096, 4096), (65, 17000, 9000)]:
        known = {"M": m, "N": n, "K": k, "B": 1}
        for name in ("IS_WIDE", "TILES", "SPLITS", "SPLIT_SUMS", "SPLIT_TILES"):
            value = gemms[name].evaluate(known)
            assert ours[name].evaluate(known) == value
            known[name] = value


def test_wrong_arguments():
    scaled_matmul = tkjit.load("scaled_matmul")
    a, b = torch.zeros(64, 256).to(E4M3), torch.zeros(32, 256).to(E4M3)
    with pytest.raises((ArgumentError, ShapeError), match="SA == M"):
        scaled_matmul(a, b, scales(3), scales(1))
    with pytest.raises(ArgumentError, match=r"scale_b is \(2, 1\)"):
        scaled_matmul(a, b, scales(64, 2), scales(2, 1))
    with pytest.raises(ArgumentError, match=r"bias is .* float32"):
        scaled_matmul(a, b, scales(1), scales(1), torch.zeros(32))
