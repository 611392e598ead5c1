"""Sources for torch's C++ API work with tensors through the stand-ins for its headers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tkjit import cpp_extension

pytestmark = pytest.mark.compiles

SOURCE = Path(__file__).parents[1] / "support/extensions/tensor_api.cpp"


@pytest.fixture(scope="module")
def module():
    return cpp_extension.load("tensor_api", SOURCE, extra_cflags=["-O0"])


def test_arithmetic_with_numbers_is_differentiable(module):
    def expected(x, a):
        y = (x * a + 1 - x / 2).pow(2) + 3 - x
        return torch.where(y > 2, y, -y)

    x = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
    assert torch.allclose(module.arithmetic(x, 1.5), expected(x, 1.5))
    assert torch.autograd.gradcheck(lambda x: module.arithmetic(x, 1.5), (x,))


def test_indices_of_every_kind(module):
    x = torch.randn(4, 3)
    written = x.clone()
    written[0:2, 1] = 7
    written[0, 0] = 5
    expected = [x[None, ..., 0], x[::2], x[x.sum(1) > 0], x[torch.tensor([1, 0]), 1:], x[..., -1], written]
    for got, value in zip(module.indexed(x), expected, strict=True):
        assert torch.equal(got, value)


def test_factories(module):
    full, numbers, zeros, listed, spaced, flags, last = module.made(torch.ones(2, dtype=torch.float16))
    assert full.dtype == torch.float64 and full.tolist() == [[2.5] * 3] * 2
    assert numbers.dtype == torch.int32 and numbers.tolist() == [0, 1, 2, 3, 4]
    assert zeros.dtype == torch.float16 and zeros.tolist() == [0, 0]
    assert listed.tolist() == [1.5, 2.5] and torch.equal(spaced, torch.linspace(0, 1, 5))
    assert flags.dtype == torch.bool and flags.all()
    assert last.is_contiguous(memory_format=torch.channels_last)


def test_properties_of_a_tensor(module):
    assert module.about(torch.ones(2, 3, 4, 4)) == "float Float 0 1 0 cpu CPUFloatType"
    last = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
    assert module.about(last) == "float Float 1 1 1 cpu CPUFloatType"
    assert module.about(torch.ones(4, 4)[:, 1:]) == "float Float 0 0 0 cpu CPUFloatType"
    assert module.asks(torch.ones(2)) and not module.asks(torch.ones(2, requires_grad=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dispatch_on_the_type_of_a_tensor(module, dtype):
    assert module.old_dispatch(torch.zeros(1, dtype=dtype)).item() == dtype.itemsize


def test_sums_of_integers(module):
    a, b = torch.tensor([1, 2]), torch.tensor([3, 5])
    total, difference, promoted = module.sums(a, b)
    assert total.tolist() == [4, 7] and difference.tolist() == [-2, -3]
    assert promoted.dtype == torch.float32 and promoted.item() == 2.5


def test_parallel_loops(module):
    assert module.counted(1000) == sum(range(1000))
    with pytest.raises(ValueError, match="in a thread"):
        module.fails_in_parallel()


def test_checks_of_arguments(module):
    module.checked(torch.ones(2, 2))
    with pytest.raises(
        RuntimeError, match="Expected 2-dimensional tensor, but got 1-dimensional tensor for argument #1 'x'"
    ):
        module.checked(torch.ones(2))


def test_errors_and_warnings_match_torch(module, capfd):
    with pytest.raises(RuntimeError, match=r"shape '\[-1, 5\]' is invalid for input of size 3"):
        module.wrong(torch.ones(3))
    with pytest.raises(RuntimeError, match="At least one of 'min' or 'max' must not be None"):
        module.wrong_number(torch.ones(3))
    module.warns()
    assert "mind the 3" in capfd.readouterr().err
