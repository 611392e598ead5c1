"""Tensors with more than 2^31 elements, which a kernel accepts if its integers are wide enough."""

from __future__ import annotations

import pytest
import torch
from support import wide

from tkjit import ShapeError
from tkjit.compile.targets import gpu_target
from tkjit.spec import Variant

pytestmark = pytest.mark.compiles


def large(elements: int = wide.ELEMENTS) -> torch.Tensor:
    """Return a tensor of which only the written pages take memory."""
    return torch.empty(elements, dtype=torch.uint8)


def test_kernel_with_a_pointer_and_a_size_t():
    x = large()
    wide.mark(x)
    assert x[-1] == 7


def test_wide_output():
    x = large(2**30 + 8).view(torch.int8)
    x[-1] = 5
    y = wide.ends(x)
    assert y.shape == (2**31 + 16,)
    assert (y[0], y[-1]) == (1, 5)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (wide.narrow, "narrow: N would be 2147483664, which does not fit in 32 bits"),
        (wide.in_layout, "an extent must fit in 31 bits, unless the kernel takes pointers (args=True)"),
        (wide.in_own_layout, "x has an extent of 2147483664, but its layout holds extents of 31 bits"),
    ],
    ids=["an int parameter", "a layout", "a layout in the source's own struct"],
)
def test_narrow_kernels_reject_wide_tensors(kernel, message):
    with pytest.raises(ShapeError) as caught:
        kernel(large())
    assert message in str(caught.value)


@pytest.mark.slow
@pytest.mark.nvcc
def test_it_compiles_for_a_gpu(loader):
    assert loader.launcher(wide.mark.specs[0], Variant(), gpu_target("90a"))
