"""rms_norm_fp8, add_rms_norm_fp8 and layer_norm_fp8 on the CPU: scales, rounding, unusual numbers, and a product."""

from __future__ import annotations

import pytest
import torch
from support.sampling import sample

import tkjit

pytestmark = pytest.mark.compiles
F = torch.nn.functional
E4M3 = torch.float8_e4m3fn
# one for each variant of tkjit::Row, and whole blocks of 128
LENGTHS = (7, 256, 1000, 1031, 9000, 16512)
INFINITY, NAN = float("inf"), float("nan")


def per_block(scales: torch.Tensor, n: int) -> torch.Tensor:
    return scales[..., torch.arange(n) // 128]


def blocks_of(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, -x.shape[-1] % 128)).unflatten(-1, (-1, 128))


def assert_rounded(y: torch.Tensor, scales: torch.Tensor, exact: torch.Tensor) -> None:
    """The values times the scales are the exact numbers, but for a rounding to 4 bits, or to the least number."""
    error = (y.double() * scales - exact).abs()
    assert y.dtype == E4M3 and bool((error <= 1.001 * (exact.abs() / 16 + scales * 2.0**-10)).all())


def normalizations(n: int, dtype: torch.dtype):
    """Yield a kernel's name, its arguments and the exact result."""
    x, residual = torch.randn(2, 2, 3, n).to(dtype)
    weight, bias = torch.randn(2, n).to(dtype)
    wide, total = x.double(), x + residual
    yield "rms_norm_fp8", (x, weight, 0.5), F.rms_norm(wide, (n,), weight.double(), 0.5)
    yield "rms_norm_fp8", (x,), F.rms_norm(wide, (n,), None, 1e-6)
    yield "add_rms_norm_fp8", (x, residual, weight), F.rms_norm(total.double(), (n,), weight.double(), 1e-6)
    yield "layer_norm_fp8", (x, weight, bias), F.layer_norm(wide, (n,), weight.double(), bias.double())
    yield "layer_norm_fp8", (x, None, bias), F.layer_norm(wide, (n,), None, bias.double())


@pytest.mark.parametrize("n", sample(LENGTHS, "1031"))
@pytest.mark.parametrize("dtype", sample((torch.float32, torch.bfloat16, torch.float16), "torch.bfloat16"))
def test_results(n, dtype):
    for name, arguments, exact in normalizations(n, dtype):
        kernel = tkjit.load(name)
        of_rows, of_blocks = kernel(*arguments), kernel(*arguments, block_size=128)
        torch.testing.assert_close(of_rows.scales.double(), exact.abs().amax(-1) / 448, rtol=1e-5, atol=0)
        torch.testing.assert_close(of_blocks.scales.double(), blocks_of(exact).abs().amax(-1) / 448, rtol=1e-5, atol=0)
        assert_rounded(of_rows.y, of_rows.scales[..., None], exact)
        assert_rounded(of_blocks.y, per_block(of_blocks.scales, n), exact)
        scale = exact.abs().amax().float()[None] / 448
        given = kernel(*arguments, scale=scale)
        assert_rounded(given if name != "add_rms_norm_fp8" else given.y, scale, exact)
        if name == "add_rms_norm_fp8":
            totals = (of_rows.total, of_blocks.total, given.total)
            assert all(torch.equal(one, arguments[0] + arguments[1]) for one in totals)


def test_a_row_has_the_largest_number_of_the_format():
    y, scales = tkjit.load("rms_norm_fp8")(torch.randn(20, 300))
    assert torch.equal(y.float().abs().amax(1), torch.full((20,), 448.0)) and scales.shape == (20,)
    y, scales = tkjit.load("rms_norm_fp8")(torch.randn(20, 300), block_size=128)
    assert torch.equal(blocks_of(y.float()).abs().amax(-1), torch.full((20, 3), 448.0)) and scales.shape == (20, 3)


def test_numbers_beyond_the_format_become_its_largest():
    x = torch.tensor([[3.0, -4.0, 0.5, NAN], [3.0, -4.0, 0.5, 0.0]])
    weight = torch.tensor([1.0, 1e30, INFINITY, 1.0])
    y = tkjit.load("rms_norm_fp8")(x, weight, scale=torch.tensor([1e-3])).float()
    assert y[0].isnan().all() and y[1].tolist() == [448, -448, 448, 0]


def test_rows_and_blocks_of_zeros():
    x = torch.randn(3, 256)
    x[1] = x[2, 128:] = 0
    for options in ({}, {"block_size": 128}):
        y, scales = tkjit.load("rms_norm_fp8")(x, **options)
        zero = scales[1] if not options else torch.stack((*scales[1], scales[2, 1]))
        torch.testing.assert_close(zero, torch.full_like(zero, 1e-10 / 448))
        assert not y[1].float().any() and not y[2, 128:].float().any() and y[0].float().any()


@pytest.mark.parametrize("options", [{}, {"block_size": 128}], ids=str)
def test_nan_and_infinity(options):
    kernel, x, weight = tkjit.load("rms_norm_fp8"), torch.randn(3, 300), torch.ones(300)
    x[0, 3] = NAN
    y, scales = kernel(x, **options)
    assert y[0].float().isnan().all() and scales.isfinite().all() and not y[1:].float().isnan().any()
    weight[5] = NAN  # an element of each row, which does not count for the scale
    clean = kernel(x[1:], weight.nan_to_num(1e-6), **options)
    y, scales = kernel(x[1:], weight, **options)
    assert torch.equal(scales, clean.scales) and y[:, 5].float().isnan().all()
    assert torch.equal(y[:, 6:].float(), clean.y[:, 6:].float())
    weight[5] = INFINITY
    y, scales = kernel(x[1:], weight, **options)
    assert scales.isfinite().all() and y[:, 5].float().abs().eq(448).all() and not y.float().isnan().any()


def test_rows_at_any_address():
    x = torch.randn(4 * 200 + 1)[1:].view(4, 200)
    out = torch.empty(4 * 200 + 3, dtype=torch.uint8)[3:].view(E4M3).view(4, 200)
    kernel = tkjit.load("rms_norm_fp8")
    y, scales = kernel(x, y=out)
    whole, others = kernel(x.clone())
    assert y is out and torch.equal(y.float(), whole.float()) and torch.equal(scales, others)


@pytest.mark.parametrize("shape", [(0, 8), (3, 0)], ids=str)
def test_empty_tensors(shape):
    y, scales = tkjit.load("rms_norm_fp8")(torch.empty(shape))
    assert y.shape == shape and torch.equal(scales, torch.full(shape[:1], 1e-10 / 448))
    y, scales = tkjit.load("layer_norm_fp8")(torch.empty(shape), block_size=128)
    assert y.shape == shape and scales.shape == (shape[0], -(-shape[1] // 128))


def test_wrong_arguments():
    kernel, x = tkjit.load("rms_norm_fp8"), torch.randn(2, 8)
    with pytest.raises(tkjit.TkjitError, match="block_size"):
        kernel(x, block_size=64)
    with pytest.raises(tkjit.TkjitError, match="scale"):
        kernel(x, scale=torch.ones(2))
    with pytest.raises(tkjit.TkjitError, match="scale"):
        kernel(x, scale=torch.ones(1), block_size=128)
    with pytest.raises(tkjit.TkjitError, match="grad"):
        kernel(x.requires_grad_())


def quantized_weight(weight: torch.Tensor, block: bool) -> tuple[torch.Tensor, torch.Tensor]:
    if not block:
        scale = weight.abs().amax(1) / 448
        return (weight / scale[:, None]).to(E4M3), scale
    blocks = weight.unflatten(0, (-1, 128)).unflatten(2, (-1, 128))
    scale = blocks.abs().amax((1, 3)) / 448
    return (blocks / scale[:, None, :, None]).to(E4M3).view_as(weight), scale


@pytest.mark.parametrize("kind", sample(["given", "rows", "blocks"], "blocks"))
def test_product_of_a_normalised_matrix(kind):
    x, gain, weight = torch.randn(20, 384), torch.rand(384) + 0.5, torch.randn(128, 384)
    exact = F.rms_norm(x, (384,), gain, 1e-6) @ weight.T
    kernel, product = tkjit.load("rms_norm_fp8"), tkjit.load("scaled_matmul")
    other, scale_b = quantized_weight(weight, kind == "blocks")
    if kind == "given":
        scale = torch.tensor([4.0 / 448])
        c = product(kernel(x, gain, scale=scale), other, scale, scale_b)
    else:
        y, scales = kernel(x, gain, **({"block_size": 128} if kind == "blocks" else {}))
        c = product(y, other, scales, scale_b)
    # each factor has an error of up to 1 / 16, of which the root mean square is about 1 / 40
    assert (c.float() - exact).norm() <= 0.05 * exact.norm()
