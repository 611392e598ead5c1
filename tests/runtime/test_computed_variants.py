"""A dim that is computed from others chooses a variant: the template argument depends on the sizes of a call."""

from __future__ import annotations

import pytest
import torch

import tkjit
from tkjit import In, Out, ShapeError, Tensor, testing
from tkjit.loader.first_variant import first_variant

pytestmark = pytest.mark.compiles
SOURCE = """
template <int PER_THREAD> __global__ void copy(Globals g) {
    for (int i = 0; i < PER_THREAD; ++i) {
        const int at = threadIdx.x * PER_THREAD + i;
        if (at < g.x.cols()) g.y[at] = g.x[at] + PER_THREAD;
    }
}
"""


@tkjit.kernel(
    SOURCE,
    entry="copy<PER_THREAD>",
    grid=1,
    block="cdiv(N, PER_THREAD)",
    dims={"PER_THREAD": "1 + (N > 4) + 2 * (N > 8)"},
    variants={"PER_THREAD": (1, 2, 4)},
    constraints="N < 100",
)
def copy(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor:
    n = x.shape[0]
    return x + (1 + (n > 4) + 2 * (n > 8))


@pytest.mark.parametrize(("n", "per_thread"), [(3, 1), (4, 1), (5, 2), (9, 4), (64, 4)])
def test_sizes_choose_the_variant(n, per_thread):
    assert torch.equal(copy(torch.zeros(n)), torch.full((n,), float(per_thread)))
    _, predicted, *_ = first_variant(copy.specs, [torch.zeros(n)], {})
    assert dict(predicted.values) == {"PER_THREAD": per_thread}


def test_check_and_verify_call_each_variant_with_sizes_that_choose_it():
    sizes = {outcome.variant: int(outcome.case.removeprefix("N=").split(",")[0]) for outcome in testing.verify(copy)}
    assert "PER_THREAD=4" in sizes and all(n > 8 for variant, n in sizes.items() if variant == "PER_THREAD=4")
    assert testing.check(copy, modes=["memory"]).findings == []


def test_a_value_that_is_no_option_is_rejected():
    @tkjit.kernel(SOURCE, entry="copy<V>", grid=1, block="N", dims={"V": "N // (N - 4)"}, variants={"V": (1, 5)})
    def copy(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...

    assert copy(torch.zeros(5)).tolist() == [5.0] * 5
    with pytest.raises(ShapeError, match=r"copy: the constraint V is 1 or 5 does not hold .V=2."):
        copy(torch.zeros(7))
    with pytest.raises(ShapeError, match=r"copy: the constraint V is 1 or 5 does not hold"):
        copy(torch.zeros(4))  # divides by zero
