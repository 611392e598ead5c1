"""The kernels with which the simulator of Blackwell is tested are valid PTX."""

from __future__ import annotations

import pytest
from support.tcgen05 import kernels

from tkjit.compile.targets import gpu_target
from tkjit.spec import Variant

pytestmark = pytest.mark.nvcc


@pytest.mark.parametrize(
    "name", ["moved", "multiplied", "multiplied_by_pair", "copied", "mistaken", "pairs", "squares"]
)
def test_a_kernel_compiles_for_blackwell(loader, name):
    loader.launcher(getattr(kernels, name).specs[0], Variant(), gpu_target("100a"))
