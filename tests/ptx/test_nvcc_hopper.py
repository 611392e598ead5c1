"""Kernels with Hopper's inline PTX compile to the expected machine instructions."""

from __future__ import annotations

import pytest
from support.hopper.kernels import PRODUCTS, SPARSE_PRODUCTS, Product, SparseProduct, move_box
from support.hopper.wrapped import WRAPPED, Wrapped
from support.sampling import sample

from tkjit.compile.targets import gpu_target
from tkjit.spec import Variant

pytestmark = pytest.mark.nvcc
HOPPER = gpu_target("90a")
INSTRUCTIONS = {"s8": "IGMMA.64x64x32.S8.S8", "e4m3": "QGMMA.64x64x32.F32.E4M3.E4M3", "bf16": "HGMMA.64x64x16.F32.BF16"}


@pytest.mark.slow  # nvcc compiles for Hopper
@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_a_product_compiles_to_tma_and_gmma(loader, sass, product: Product):
    code = sass(loader.launcher(product.kernel.specs[0], Variant(), HOPPER).shared_object)
    assert "UTMALDG.2D" in code and INSTRUCTIONS.get(product.element, "GMMA") in code


@pytest.mark.slow
@pytest.mark.parametrize("product", SPARSE_PRODUCTS, ids=str)
def test_a_product_of_a_sparse_matrix_compiles_to_gmma(loader, sass, product: SparseProduct):
    code = sass(loader.launcher(product.kernel.specs[0], Variant(), HOPPER).shared_object)
    assert "GMMA.SP" in code


@pytest.mark.slow
def test_a_moved_box_compiles_to_tma(loader, sass):
    code = sass(loader.launcher(move_box.specs[0], Variant(), HOPPER).shared_object)
    assert {"UTMALDG.3D", "UTMASTG.3D", "UTMAREDG.3D.ADD"} <= set(code.replace(";", " ").split())


@pytest.mark.parametrize("wrapped", sample(WRAPPED, "bf16-64-adds", name=str), ids=str)
def test_a_wrapper_compiles_to_tma_and_gmma_without_spills(loader, sass, wrapped: Wrapped):
    entry = loader.launcher(wrapped.kernel.specs[0], Variant(), HOPPER)
    assert entry.manifest["spill_store_bytes"] == 0
    code = sass(entry.shared_object)
    shape = f"64x{wrapped.n}x"
    assert f"GMMA.{shape}" in code and "UTMALDG.2D" in code and "UTMASTG.2D" in code
    assert ("UTMAREDG.2D.ADD" in code) is wrapped.adds
