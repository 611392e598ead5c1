"""What the checker says of sources whose inline PTX it does not know."""

from __future__ import annotations

import pytest
import torch

import tkjit
from tkjit import InOut, Tensor, ToolchainError
from tkjit.testing import check

pytestmark = pytest.mark.compiles


@tkjit.kernel(
    '__global__ void waits(float* x) { asm volatile("bar.sync 0;"); x[0] = 1; }',
    entry="waits",
    args=True,
    grid=1,
    block=32,
)
def waits(x: InOut[Tensor, "float32", "N"]) -> None: ...


@pytest.mark.parametrize("mode", ["memory", "race"])
def test_it_is_refused(mode):
    with pytest.raises(
        ToolchainError, match="waits has inline PTX, or headers that are adapted with it: check does not"
    ):
        check(waits, torch.zeros(1), modes=[mode])
