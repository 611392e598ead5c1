"""On the CPU, a kernel's write past an output is detected and does no harm."""

from __future__ import annotations

import io
import re
from contextlib import suppress

import pytest
import torch

import tkjit
from tkjit import LaunchError, Out, Scratch, Tensor

pytestmark = pytest.mark.compiles


@tkjit.kernel(
    """
    __global__ void writes(const __grid_constant__ Globals g) {
        g.y[0] = 1;
        if (g.behind >= 0) reinterpret_cast<char*>(g.y.raw_ptr + g.y.numel())[g.behind] = 1;
        g.y[1] = g.n / g.zero;
        if (g.of_scratch >= 0) g.sums.raw_ptr[g.sums.numel() + g.of_scratch] = 1;
    }
    """,
    entry="writes",
    grid=1,
    block=1,
)
def writes(
    n: int,
    behind: int = -1,
    of_scratch: int = -1,
    zero: int = 1,
    device: torch.device = "cpu",
    *,
    y: Out[Tensor, "float64", "n", "2"],
    sums: Scratch[Tensor, "float32", "n"],
) -> Tensor: ...


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"behind": 0}, "it wrote to element 20 of y, which has 20: compare the index with the size before writing"),
        ({"behind": 7}, "element 20 of y"),
        ({"behind": 1023}, "element 147 of y"),
        ({"of_scratch": 0}, "it wrote to element 10 of sums, which has 10"),
        ({"of_scratch": 255}, "element 265 of sums"),
    ],
)
def test_a_write_past_an_output_is_an_error(given, text):
    with pytest.raises(LaunchError, match=f"^writes: .*{re.escape(text)}"):
        writes(10, **given)
    assert writes(10)[0, 0] == 1


def test_writes_past_several_outputs_and_a_later_fault():
    with pytest.raises(LaunchError, match="it wrote to element"):
        writes(10, behind=0, of_scratch=0)
    with pytest.raises(LaunchError, match="an integer division by zero"):
        writes(10, behind=0, of_scratch=0, zero=0)
    with torch.inference_mode():
        assert writes(10)[0, 0] == 1


def test_a_prepared_launch_is_checked_as_well():
    prepared = writes.prepare(10)
    assert prepared() is prepared.result
    with pytest.raises(LaunchError, match="element 21 of y, which has 20"):
        prepared(behind=8)
    assert prepared() is prepared.result, "a correct launch after a wrong one"
    storage = prepared.result.untyped_storage()
    storage.resize_(0)
    storage.resize_(160)  # the storage has other memory now, or the same memory without a guard
    with suppress(tkjit.ArgumentError):
        prepared()


def test_a_guarded_output_is_an_ordinary_tensor():
    y = writes(10)
    made = torch.empty(10, 2, dtype=torch.float64)
    assert (y.shape, y.stride(), y.untyped_storage().nbytes()) == (made.shape, made.stride(), 160)
    assert y.is_contiguous() and y.data_ptr() % 64 == 0
    saved = io.BytesIO()
    torch.save(y, saved)
    saved_made = io.BytesIO()
    torch.save(made, saved_made)
    assert len(saved.getvalue()) == len(saved_made.getvalue())
    y.zero_()[3, 1] = 5
    y.resize_(100, 2)
    assert y[3, 1] == 5 and y.untyped_storage().nbytes() == 1600
    assert writes(10).share_memory_()[0, 0] == 1
    assert writes(0).shape == (0, 2)


def test_an_output_that_the_caller_passes_has_no_guard():
    room = torch.zeros(11, 2, dtype=torch.float64)
    writes(10, behind=0, out=room[:10])  # the launch cannot know that this memory is in use
    assert room[10, 0] != 0


def test_an_output_that_is_too_large_raises_torchs_error():
    with pytest.raises(RuntimeError, match=r"allocate|memory"):
        writes(1 << 30 | (1 << 30) - 1)
