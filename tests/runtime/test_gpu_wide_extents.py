"""Tensors with more than 2^31 elements on a GPU."""

from __future__ import annotations

import pytest
import torch
from support import wide

pytestmark = pytest.mark.gpu


def test_kernel_with_a_pointer_and_a_size_t():
    x = torch.zeros(wide.ELEMENTS, dtype=torch.uint8, device="cuda")
    wide.mark(x)
    assert x[-1] == 7
    assert x.count_nonzero() == 1


def test_wide_output():
    x = torch.randint(1, 100, (2**30 + 8,), dtype=torch.int8, device="cuda")
    y = wide.ends(x)
    assert y.shape == (2**31 + 16,)
    assert (y[0], y[-1]) == (1, x[-1])
