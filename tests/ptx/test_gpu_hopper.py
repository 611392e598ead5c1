"""Kernels with Hopper's instructions give the same results on a GPU as in the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.hopper.kernels import BOXES, PRODUCTS, SPARSE_PRODUCTS, Product, SparseProduct, move_box
from support.hopper.wrapped import WRAPPED, Wrapped

pytestmark = pytest.mark.gpu


@pytest.fixture
def hopper(gpu):
    if torch.cuda.get_device_capability(gpu) != (9, 0):
        pytest.skip(f"wgmma exists only on Hopper: expected an H100 or H200, got {torch.cuda.get_device_name(gpu)}")
    return gpu


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_a_product_equals_the_simulators(hopper, product: Product):
    a, b = product.inputs()
    assert torch.equal(product.kernel(a.to(hopper), b.to(hopper)).cpu(), product.kernel(a, b))


@pytest.mark.parametrize("product", SPARSE_PRODUCTS, ids=str)
def test_a_product_of_a_sparse_matrix_equals_the_simulators(hopper, product: SparseProduct):
    *operands, _ = product.inputs()
    on_gpu = product.kernel(*(operand.to(hopper) for operand in operands))
    assert torch.equal(on_gpu.cpu(), product.kernel(*operands))


@pytest.mark.parametrize("wrapped", WRAPPED, ids=str)
def test_a_wrapped_product_equals_the_simulators(hopper, wrapped: Wrapped):
    a, b = wrapped.inputs()
    assert torch.equal(wrapped.kernel(a.to(hopper), b.to(hopper)).cpu(), wrapped.kernel(a, b))


@pytest.mark.parametrize("at", BOXES, ids=str)
@pytest.mark.parametrize("adds", [0, 1])
def test_a_moved_box_equals_the_simulators(hopper, at, adds):
    source, target = torch.randn(5, 9, 16), torch.randn(5, 9, 16)
    on_gpu = target.to(hopper)
    move_box(source.to(hopper), on_gpu, *at, adds=adds)
    move_box(source, target, *at, adds=adds)
    assert torch.equal(on_gpu.cpu(), target)


BOX = """
import sys, torch
from support.hopper.kernels import move_box
source, target = torch.randn(5, 9, 16, device="cuda"), torch.randn(5, 9, 16, device="cuda")
move_box(source, target, *map(int, sys.argv[1:]))
torch.cuda.synchronize()
"""


@pytest.mark.parametrize("at", ["1 0 0 0 0 0", "0 0 0 1 0 0", "0 0 0 -4 0 0", "0 0 0 0 -1 0", "0 0 0 0 0 -1"])
def test_a_box_that_the_simulator_rejects_ends_the_kernel(hopper, at):
    """The kernel runs in a separate process, because its process cannot use the device afterwards."""
    around = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    ended = subprocess.run([sys.executable, "-c", BOX, *at.split()], env=around, capture_output=True, text=True)
    assert ended.returncode == 1 and "an illegal instruction was encountered" in ended.stderr
