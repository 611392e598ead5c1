"""The Hopper GEMM in the simulator: any shape, with and without TMA, and a ring of stages that wraps around."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import tkjit
from tkjit import testing
from tkjit.spec import variants_of
from tkjit.spec.variants import configurations_of

pytestmark = pytest.mark.compiles


@pytest.fixture(autouse=True)
def on_hopper(session_cache, monkeypatch):
    monkeypatch.setenv("TKJIT_MODEL_ARCH", "90a")


SHAPES = [
    (128, 64, 256),  # one tile, one stage
    (128, 1000, 256),  # the ring wraps around, and the last stage is partial
    (129, 72, 264),  # one more tile in both directions
    (1, 8, 8),
    (53, 37, 71),  # rows that TMA cannot copy
    (40, 3100, 264),  # three blocks share a tile, and each adds up a part of K
    (70, 2100, 71),
    (2200, 16, 264),  # more rows of tiles than are computed one after another
    (1100, 72, 2000),  # wide tiles
    (300, 130, 520),
    (16, 0, 8),
]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape(shape):
    m, k, n = shape
    outcomes = testing.verify("gemm", types=["bfloat16"], dims={"M": m, "K": k, "N": n})
    assert len(outcomes) == 1


@pytest.mark.slow
def test_other_types():
    for dtype in ("float16", "float32"):
        testing.verify("gemm", types=[dtype], dims={"M": 130, "K": 72, "N": 40})


def test_wide_and_narrow_tiles():
    """A matrix of 65 rows has one tile, which is wide if there are more than 66 matrices."""
    for count in (66, 67):
        a, b = torch.randn(count, 65, 72).bfloat16(), torch.randn(count, 72, 136).bfloat16()
        torch.testing.assert_close(tkjit.load("matmul")(a, b), a @ b)
        torch.testing.assert_close(tkjit.load("matmul")(a.mT.contiguous().mT, b), a @ b)


def test_views_at_addresses_that_tma_cannot_copy():
    """NaN surrounds the views, so a read outside of them changes the result."""
    m, k, n = 40, 64, 72
    buffer = torch.full((2 * (m * k + k * n),), float("nan"), dtype=torch.bfloat16)
    a = buffer[1 : 1 + m * k].view(m, k).normal_()
    b = buffer[m * k + 8 : m * k + 8 + k * n].view(k, n).normal_()
    c = tkjit.load("gemm")(a, b)
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=0.02, atol=0.1)


@pytest.mark.slow
def test_other_configurations():
    (spec,) = tkjit.find("gemm").specs
    a, b = torch.randn(140, 136).bfloat16(), torch.randn(136, 264).bfloat16()
    for configuration in configurations_of(spec, variants_of(spec)[1]):
        tuning = tuple((name, (value,)) for name, value in configuration)
        c = tkjit.load(tkjit.Kernel(replace(spec, parameters=replace(spec.parameters, tuning=tuning))))(a, b)
        torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=0.02, atol=0.1)


def test_only_hopper_uses_this_source():
    kernel = tkjit.find("gemm")
    assert "hopper::" in kernel.render(arch="90a", T="bfloat16").launcher
    assert "hopper::" not in kernel.render(arch="80", T="bfloat16").launcher
