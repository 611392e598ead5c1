"""References in float64, and guard bytes around tensors."""

import pytest
import torch

import tkjit
from tkjit import In, InOut, Out, Tensor
from tkjit.check.arguments import each_tensor, tensors_of
from tkjit.errors import SpecError
from tkjit.verify.bounds import Bound
from tkjit.verify.guarded import GUARD_BYTES, guarded
from tkjit.verify.reference import expected_results

SOURCE = "__global__ void f(Globals g) {}"
BOUND = Bound(0.02)


def test_conversions_in_a_reference_give_float64():
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1)
    def f(x: In[Tensor, "bfloat16", "N"], y: Out[Tensor, "bfloat16", "N"]) -> Tensor:
        return (x.float().bfloat16() / 3 + torch.zeros(1, dtype=torch.float16)).to(x.dtype)

    x = torch.randn(64).bfloat16()
    results, in_float64 = expected_results(f.specs[0], {"x": x}, BOUND)
    assert in_float64 and results["y"][0].dtype == torch.float64
    torch.testing.assert_close(results["y"][0], x.double() / 3, rtol=1e-15, atol=0)


def test_a_reference_that_works_on_bits_is_not_computed_in_float64():
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1)
    def f(x: In[Tensor, "float32", "N"], y: Out[Tensor, "int32", "N"]) -> Tensor:
        return x.view(torch.int32)

    x = torch.randn(8)
    results, in_float64 = expected_results(f.specs[0], {"x": x}, BOUND)
    assert not in_float64
    assert torch.equal(results["y"][0], x.view(torch.int32))


def test_an_in_place_change_is_a_result_and_leaves_the_argument_unchanged():
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1)
    def f(x: In[Tensor, "float32", "N"], y: InOut[Tensor, "float32", "N"]) -> None:
        y += x

    x, y = torch.ones(4), torch.ones(4)
    results, _ = expected_results(f.specs[0], {"x": x, "y": y}, BOUND)
    assert results["y"][0].tolist() == [2] * 4 and y.tolist() == [1] * 4


def test_complex_inputs_become_complex128():
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1)
    def f(x: In[Tensor, "complex64", "N"], y: Out[Tensor, "complex64", "N"]) -> Tensor:
        return (x / 3).to(torch.complex64)

    x = torch.randn(8, dtype=torch.complex64)
    results, in_float64 = expected_results(f.specs[0], {"x": x}, BOUND)
    assert in_float64 and results["y"][0].dtype == torch.complex128
    torch.testing.assert_close(results["y"][0], x.to(torch.complex128) / 3, rtol=1e-15, atol=0)


def test_a_tensor_that_occurs_twice_is_copied_once():
    x = torch.ones(3)
    one, other = each_tensor([x, x], torch.Tensor.clone)
    assert one is other and one is not x
    assert len(tensors_of([x, x])) == 2


def test_a_missing_or_failing_reference_is_an_error():
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1)
    def none(y: InOut[Tensor, "float32", "N"]) -> None: ...

    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1)
    def fails(y: InOut[Tensor, "float32", "N"]) -> None:
        y @ torch.ones(y.numel() + 1)

    with pytest.raises(SpecError, match="none has no reference"):
        expected_results(none.specs[0], {"y": torch.ones(2)}, BOUND)
    with pytest.raises(SpecError, match="fails: the reference fails: RuntimeError"):
        expected_results(fails.specs[0], {"y": torch.ones(2)}, BOUND)


@pytest.mark.parametrize("place", [-1, 0, 5, 6])
def test_a_guard_shows_where_it_was_overwritten(place):
    guard = guarded(torch.arange(6, dtype=torch.int32), "cpu")
    assert guard.first_written is None and guard.tensor.tolist() == list(range(6))
    assert guard.tensor.data_ptr() % 256 == guard.allocation.data_ptr() % 256
    guard.allocation[GUARD_BYTES + 4 * place] = 1
    assert guard.first_written == (4 * place if place in (-1, 6) else None)


def test_guards_are_nan_and_keep_the_strides():
    tensor = torch.randn(4, 8)[:, :5]
    guard = guarded(tensor, "cpu")
    assert torch.equal(guard.tensor, tensor) and guard.tensor.stride() == (8, 1)
    assert guard.allocation[:4].view(torch.float32).isnan().all()
    assert guarded(torch.ones(0, 3), "cpu").first_written is None
