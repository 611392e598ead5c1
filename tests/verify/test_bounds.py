"""Comparison of results: bounds by dtype, rows and elements, NaN."""

import pytest
import torch

import tkjit
from tkjit import In, Out, Tensor
from tkjit.spec import variants_of
from tkjit.verify.bounds import Bound, bound_of, difference, row_error

BOUND = Bound(0.01)


def rows(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_the_error_is_that_of_the_worst_row_unless_the_row_is_near_zero():
    right = torch.ones(4, 8)
    wrong = right.clone()
    wrong[2] += 0.5
    assert row_error(right, wrong) == pytest.approx(0.5)
    right[3] = 0
    off = right.clone()
    off[3] += 1e-4
    assert row_error(right, off) < 2e-3
    assert row_error(right, off * float("nan")) == float("inf")


def test_one_wrong_element_of_a_long_row_is_found():
    right = rows(3, 4096)
    wrong = right.clone()
    wrong[1, 17] += 0.5
    assert row_error(right, wrong) < BOUND.row
    found = difference(right, wrong, BOUND)
    assert found.startswith("[1, 17] is ")
    assert "1 of 12288 elements differ too much" in found
    assert not difference(right, right + 0.001, BOUND)


def test_many_small_errors_in_one_direction_are_found():
    right = rows(2, 512)
    assert "a whole row differs too much" in difference(right, right * 1.02, BOUND)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_numbers_are_wrong_unless_the_reference_has_them(value):
    right = rows(2, 8)
    wrong = right.clone()
    wrong[0, 3] = value
    assert "[0, 3]" in difference(right, wrong, BOUND)
    assert not difference(wrong, wrong.clone(), BOUND)
    assert row_error(wrong, wrong.clone()) == 0
    assert "[0, 3]" in difference(wrong, right, BOUND)


def test_integers_must_be_equal():
    right = torch.arange(10).reshape(2, 5)
    wrong = right.clone()
    wrong[1, 2] += 1
    assert not difference(right, right.clone(), BOUND)
    assert difference(right, wrong, BOUND) == "[1, 2] is 8, but 7 in the reference; 1 of 10 elements differ too much"


def test_integers_that_float64_cannot_represent_are_compared_exactly():
    right = torch.tensor([2**60, 5])
    assert (
        difference(right, right + 1, BOUND)
        == f"[0] is {2**60 + 1}, but {2**60} in the reference; 2 of 2 elements differ too much"
    )


def test_complex_numbers_are_compared_by_rows():
    right = torch.randn(4, 256, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    wrong = right.clone()
    wrong[2, 5] += 0.02
    assert row_error(right, wrong) < BOUND.row / 5 and not difference(right, wrong, BOUND)
    wrong[2, 5] += 1
    assert "[2, 10] is" in difference(right, wrong, BOUND)


def test_another_shape_is_wrong():
    assert row_error(torch.ones(3), torch.ones(2)) == float("inf")
    assert "the shape is [2], but [3] in the reference" in difference(torch.ones(3), torch.ones(2), BOUND)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,)])
def test_scalars_and_empty_tensors_can_be_compared(shape):
    assert not difference(torch.ones(shape), torch.ones(shape), BOUND)
    assert row_error(torch.ones(shape), torch.ones(shape)) == 0


def test_the_bound_is_that_of_the_coarsest_dtype_unless_the_spec_sets_a_tolerance():
    def kernel(dtype, **options):
        @tkjit.kernel("__global__ void f(Globals g) {}", entry="f", grid=1, block=1, **options)
        def f(x: In[Tensor, dtype, "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...

        (spec,) = f.specs
        return bound_of(spec, variants_of(spec)[0]).row

    assert kernel("float32") < kernel("float16") < kernel("bfloat16") < kernel("float8_e4m3fn")
    assert kernel("float32", tolerance=0.125) == 0.125
    assert kernel("int32") == kernel("float32")
