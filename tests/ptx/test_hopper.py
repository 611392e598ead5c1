"""Inline PTX of Hopper on the CPU: products through wgmma, boxes through tensor maps, against references."""

from __future__ import annotations

import pytest
import torch
from support.hopper.kernels import PRODUCTS, Product, move_box
from support.sampling import sample

pytestmark = pytest.mark.compiles
USUAL = (
    "bf16-0-a_by_columns-b_by_rows",
    "bf16-64-b_by_rows",
    "f16-128",
    "e4m3-128",
    "tf32-0",
    "s8-128",
    "bf16-128-a_in_registers",
)


@pytest.mark.parametrize("product", sample(PRODUCTS, *USUAL, name=str), ids=str)
def test_a_product(product: Product):
    a, b = product.inputs()
    assert torch.equal(product.kernel(a, b).double(), product.expected(a, b))


@pytest.mark.parametrize("x, y, z", [(0, 0, 0), (4, 2, 1), (-3, -1, -1), (13, 7, 4), (40, 0, 0)])
@pytest.mark.parametrize("adds", [0, 1])
def test_a_box(x, y, z, adds):
    source, target = torch.randn(5, 9, 16), torch.randn(5, 9, 16)
    expected = target.clone()
    inside = tuple(
        slice(max(at, 0), max(min(at + size, end), 0)) for at, size, end in ((z, 2, 5), (y, 4, 9), (x, 8, 16))
    )
    expected[inside] = source[inside] + 1 + (target[inside] if adds else 0)
    move_box(source, target, x, y, z, adds=adds)
    assert torch.allclose(target, expected)


@pytest.mark.parametrize("nan", [0, 1])
def test_what_lies_outside_is_filled(nan):
    target = torch.zeros(5, 9, 16)
    move_box(torch.ones(5, 9, 16), target, 12, 0, 0, shift=-12, nan=nan)
    assert torch.equal(target[:2, :4, :4], torch.full((2, 4, 4), 2.0))
    filled = target[:2, :4, 4:8]
    assert filled.isnan().all() if nan else torch.equal(filled, torch.ones(2, 4, 4))
