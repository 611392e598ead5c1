"""quant_matmul on the CPU, with weights of 4 and of 8 bits."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit

pytestmark = pytest.mark.compiles
SHAPES = {
    "one row": ((1,), 40, 256),
    "leading dims": ((2, 3), 70, 128),
    "several tiles": ((33,), 130, 512),
    "several blocks for a tile": ((17,), 9, 4096),
}


@pytest.fixture(params=sample(("bfloat16", "float16"), "bfloat16"))
def dtype(request) -> torch.dtype:
    return getattr(torch, request.param)


def near(y: torch.Tensor, x: torch.Tensor, weights: torch.Tensor) -> None:
    exact, size = x.double() @ weights.T, x.double().abs() @ weights.abs().T
    assert y.dtype == x.dtype and y.shape == exact.shape
    assert bool(((y.double() - exact).abs() <= torch.finfo(y.dtype).eps * exact.abs() + 1e-5 * size + 1e-7).all())


def scaled(numbers: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return (numbers.double().unflatten(-1, (-1, 128)) * scales.double()[..., None]).flatten(-2)


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_four_bits(dtype, name, has_zeros):
    leading, n, k = SHAPES[name]
    x, scales = torch.randn(*leading, k).to(dtype), torch.rand(n, k // 128).to(dtype)
    digits, zeros = torch.randint(16, (n, k)), torch.randint(16, (n, k // 128))
    weight = (digits[:, ::2] + 16 * digits[:, 1::2]).byte()
    y = tkjit.load("quant_matmul")(x, weight, scales, zeros.byte() if has_zeros else None)
    near(y, x, scaled(digits - (zeros.repeat_interleave(128, 1) if has_zeros else 8), scales))


@pytest.mark.parametrize("name", SHAPES)
def test_eight_bits(dtype, name):
    leading, n, k = SHAPES[name]
    x, scales = torch.randn(*leading, k).to(dtype), torch.rand(n, k // 128).to(dtype)
    weight = (50 * torch.randn(n, k)).to(torch.float8_e4m3fn)
    near(tkjit.load("quant_matmul")(x, weight, scales), x, scaled(weight, scales))


def test_every_number_of_eight_bits(dtype):
    numbers = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    weight = numbers[~numbers.float().isnan()].repeat(128, 1).T.contiguous()
    x = torch.zeros(1, 128, dtype=dtype)
    x[0, 77] = 1
    y = tkjit.load("quant_matmul")(x, weight, torch.ones(len(weight), 1, dtype=dtype))
    assert torch.equal(y[0], weight[:, 77].to(dtype))


def test_a_k_that_is_no_multiple_of_128_is_rejected():
    with pytest.raises(tkjit.TkjitError, match="K % 128"):
        tkjit.load("quant_matmul")(
            torch.ones(1, 64).half(), torch.ones(2, 32, dtype=torch.uint8), torch.ones(2, 0).half()
        )
