"""Sources bind functions, classes, enumerations, gradients and operators to Python."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tkjit import cpp_extension
from tkjit.errors import ArgumentError

pytestmark = pytest.mark.compiles

SOURCE = Path(__file__).parents[1] / "support/extensions/bindings.cpp"


@pytest.fixture(scope="module")
def module():
    return cpp_extension.load("tkjit_test_bindings", SOURCE, extra_cflags=["-O0"])


def test_classes_are_bound(module):
    scaler = module.Scaler(by=3)
    scaler.scale = 2.0
    assert repr(scaler) == "Scaler(3)" and scaler.by == 3 and scaler.scale == 2
    assert scaler.run(torch.ones(2)).tolist() == [4, 4]
    assert scaler.run(x=torch.ones(2), mode=module.Mode.mul).tolist() == [6, 6]
    assert module.twice(scaler).by == 6
    with pytest.raises(AttributeError):
        scaler.by = 4
    with pytest.raises(TypeError, match="by: expected int, got str"):
        module.Scaler("3")


def test_enumerations_are_bound(module):
    assert module.Mode.mul == module.mul == 1 and module.Mode(0) is module.Mode.add


def test_overloads_are_chosen_by_type(module):
    assert module.either(3) == 3 and module.either("x") == "x!"
    with pytest.raises(TypeError, match=r"expected int, got float; .*expected str, got float"):
        module.either(1.5)


def test_arguments_of_many_types(module):
    assert module.captures(torch.zeros(1)).item() == 7 and module.captures(torch.zeros(1), y=4).item() == 9
    assert module.doubled({"a": torch.ones(1)})["a"].item() == 2
    assert module.shaped(torch.ones(4), [2, 2]).shape == (2, 2)
    assert module.all(2, torch.float64, torch.device("cpu"), (3, True), [4, 5]) == 17
    assert module.__version__ == "1.0" and module.__doc__ == "Bindings." and module.inner.number(3) == 3


def test_dtypes_devices_and_wide_numbers(module):
    assert module.dtype_or() == (torch.float16, torch.device("cpu"))
    assert module.dtype_or(torch.int8)[0] == torch.int8
    assert module.wide(2**64 - 1) == 2**64 - 1
    assert module.which(3) == 0 and module.which(torch.ones(2)) == 1


def test_cpp_autograd_functions_have_gradients(module):
    x = torch.randn(4, dtype=torch.double, requires_grad=True)
    assert torch.allclose(module.square(x, 3.0), 3 * x * x)
    for square in (module.square, torch.ops.tkjit_test_bindings.square):
        assert torch.autograd.gradcheck(lambda x, square=square: square(x, 2.0, torch.ones(4)), (x,))


def test_operator_cannot_be_registered_twice(module, tmp_path):
    path = tmp_path / "again.cpp"
    path.write_text(
        "#include <torch/script.h>\nat::Tensor same(at::Tensor x) { return x; }\n"
        'static auto made = torch::RegisterOperators("tkjit_test_bindings::square", &same);\n'
    )
    with pytest.raises(ArgumentError, match="operator tkjit_test_bindings::square, which is already registered"):
        cpp_extension.load("again", path, is_python_module=False)
