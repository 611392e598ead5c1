"""Operators with types that only Python can pass, and C++ code that calls operators by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tkjit import cpp_extension

pytestmark = pytest.mark.compiles

SOURCE = Path(__file__).parents[1] / "support/extensions/operators.cpp"


@pytest.fixture(scope="module")
def module():
    return cpp_extension.load("tkjit_test_operators", SOURCE, extra_cflags=["-O0"])


@pytest.mark.slow
def test_operators_registered_through_python(module):
    operators = torch.ops.tkjit_test_operators
    x = torch.randn(3)
    assert torch.equal(operators.scaled(x, 2.5), x * 2.5) and torch.equal(operators.scaled(x, 2), x * 2)
    assert torch.equal(operators.each({"a": x}, 2)["a"], x * 2)
    empty, made = operators.both({"a": [1, 2]})
    assert empty == {} and made.tolist() == [1, 2]
    assert str(operators.each.default._schema).endswith("each(Dict(str, Tensor) _0, int _1) -> Dict(str, Tensor)")


def test_operators_are_called_by_name(module):
    x = torch.randn(3)
    assert torch.equal(module.by_name(x), x * 3)
    assert torch.equal(module.in_place(x), x) and (x >= 0).all()
    with pytest.raises(RuntimeError, match="nothing"):
        module.missing(x)


def test_functional_api(module):
    x = torch.randn(2, 4)
    pad = torch.nn.functional.pad
    assert torch.equal(module.padded(x), pad(x, (1, 2), value=7))
    assert torch.equal(module.reflected(x), pad(x, (1, 2), mode="reflect"))
    assert torch.allclose(module.linear(x, x), x @ x.T)


def test_in_place_change_bumps_a_tensors_version(module):
    x = torch.randn(3)
    assert module.changed(x) and x._version == 1


def test_random_numbers(module):
    assert module.drawn(torch.tensor([0.0, 1.0])).tolist() == [2, 2, 2]


def test_logging_and_checks(module, capfd):
    module.logged(1)
    assert capfd.readouterr().err == ""
    module.logged(-1)
    assert capfd.readouterr().err.endswith("] n is -1\n")
    with pytest.raises(RuntimeError, match=r"Check failed: \(n\) < \(3\) n is 3"):
        module.logged(3)
