"""The collectives over simulated devices: each device gets the same bits."""

from __future__ import annotations

import pytest
import torch
from support.devices import parts, signals

import tkjit
from tkjit import ShapeError

pytestmark = pytest.mark.compiles


DTYPES = [torch.float32, torch.bfloat16]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [2, 5, 8])
@pytest.mark.parametrize("n", [1, 8, 1000, 20011])
def test_all_reduce_gives_all_devices_the_same_bits(n, count, dtype):
    x, flags = parts(count, n, dtype=dtype), signals(count)
    wanted = sum(part.float() for part in x).to(dtype)
    for y in tkjit.load("all_reduce_one_shot")(x, flags):
        assert torch.equal(y, wanted)
    assert tkjit.load("all_reduce")(x, flags) is None
    assert all(torch.equal(part, wanted) for part in x)
    assert all(not flag.any() for flag in flags)


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("shape", [(1, 1), (5, 8), (64, 33)])
def test_all_gather_and_reduce_scatter(shape, count):
    rows, columns = shape
    x, flags = parts(count, rows, columns), signals(count)
    for y in tkjit.load("all_gather")(x, flags):
        assert torch.equal(y, torch.cat(x))
    x = parts(count, rows * count, columns)
    for y, wanted in zip(tkjit.load("reduce_scatter")(x, flags), sum(x).chunk(count), strict=True):
        assert torch.equal(y, wanted)


def test_reduce_scatter_rejects_rows_that_cannot_be_split():
    with pytest.raises(ShapeError, match=r"the constraint M % num_devices == 0 does not hold \(M=5, num_devices=2\)"):
        tkjit.load("reduce_scatter")(parts(2, 5, 4), signals(2))


@pytest.mark.parametrize("count", [2, 4])
def test_gemm_all_reduce(count):
    a, b = parts(count, 200, 70), parts(count, 70, 150)
    c, partial = [torch.empty(200, 150) for _ in a], [torch.empty(200, 150) for _ in a]
    tkjit.load("gemm_all_reduce")(a, b, c, partial, signals(count))
    torch.testing.assert_close(c[0], sum(left @ right for left, right in zip(a, b, strict=True)), atol=1e-4, rtol=1e-4)
    assert all(torch.equal(part, c[0]) for part in c)


def test_too_few_signals_are_rejected():
    with pytest.raises(ShapeError, match=r"S >= 32 \* num_devices does not hold"):
        tkjit.load("all_reduce")(parts(2, 8), [torch.zeros(63, dtype=torch.int32) for _ in range(2)])


def test_the_results_agree_with_the_references():
    count = 3
    x, flags = parts(count, 6, 4), signals(count)
    for name in ("all_gather", "reduce_scatter"):
        kernel = tkjit.find(name)
        for y, wanted in zip(tkjit.load(name)(x, flags), kernel.reference(x, flags), strict=True):
            torch.testing.assert_close(y, wanted)
