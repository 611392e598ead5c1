"""Kernels loaded through pybind11 agree with tkjit's own glue in results, errors and messages."""

from __future__ import annotations

import pytest
import torch
from support.bad_calls import CASES, good_arguments, probe
from support.exportable import add, describe, mix, noise, ones, pick, turn
from support.operators import parts, scale

import tkjit
from tkjit import SpecError, TkjitError

pytestmark = pytest.mark.compiles
PYBIND11 = "pybind11"


def x(*sizes: int) -> torch.Tensor:
    torch.manual_seed(sum(sizes))
    return torch.randn(*sizes)


CALLS = {
    "softmax": (lambda: "softmax", lambda: ((x(3, 40),), {})),
    "gemm": (lambda: "gemm", lambda: ((x(20, 30), x(30, 10)), {})),
    "gemm in bfloat16": (
        lambda: "gemm",
        lambda: ((x(20, 30).bfloat16(), x(30, 10).bfloat16()), {}),
    ),
    "axpy": (lambda: "axpy", lambda: ((x(9), x(9)), {"alpha": 3})),
    "mix": (lambda: mix, lambda: ((x(3, 4), x(3)), {"bias": x(4), "shift": 2, "width": 2, "flag": True})),
    "turn": (lambda: turn, lambda: ((x(3, 8)[:, ::2],), {})),
    "pick": (lambda: pick, lambda: ((x(8), [3, 1, 2, 0]), {"weights": [0.5]})),
    "add": (lambda: add, lambda: (([None, x(4), x(4)],), {})),
    "describe": (lambda: describe, lambda: ((x(4), "abc", torch.float16, "cpu"), {})),
    "ones": (lambda: ones, lambda: ((4, "int32", "cpu"), {})),
    "scale with an output": (lambda: scale, lambda: ((x(64),), {"out": torch.empty(64)})),
    "parts": (lambda: parts, lambda: ((x(64),), {})),
    "an array": (lambda: "axpy", lambda: ((x(9).numpy(), x(9).numpy()), {})),
}


@pytest.mark.slow  # compiles a pybind11 module per case
@pytest.mark.parametrize("name", CALLS)
def test_results_agree(name):
    kernel, arguments = CALLS[name]
    results = []
    for binding in (None, PYBIND11):
        args, kwargs = arguments()
        returned = tkjit.load(kernel(), binding=binding)(*args, **kwargs)
        results.append([returned, args])  # include the tensors that are written in place
    assert _plain(results[0]) == _plain(results[1])
    assert type(results[0][0]) is type(results[1][0])


def _plain(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


# Cases whose message differs: torch's zero tensors have no memory, and pybind11 glue reports that before the strides.
OTHER_MESSAGE = {"zero tensor"}


def test_errors_agree():
    loaded = tkjit.load(probe, binding=PYBIND11)
    differing = {}
    for name, case in CASES.items():
        if name in OTHER_MESSAGE:
            continue
        with pytest.raises(TkjitError) as raised:
            loaded(**good_arguments() | case.change())
        if (type(raised.value), str(raised.value)) != (case.kind, case.message):
            differing[name] = (raised.value, case.message)
    assert differing == {}


def test_valid_call_works_repeatedly():
    loaded, arguments = tkjit.load(probe, binding=PYBIND11), good_arguments()
    for _ in range(3):
        y = loaded(**arguments)
    assert y.tolist() == [0, 1, 2] and arguments["acc"].tolist() == [3, 3]


@pytest.mark.slow
def test_gradients_are_recorded():
    a = x(64).requires_grad_()
    tkjit.load(scale, binding=PYBIND11)(a, factor=3.0).sum().backward()
    assert torch.equal(a.grad, torch.full((64,), 3.0))


@pytest.mark.slow
def test_random_numbers_are_the_same():
    drawn = []
    for binding in (None, PYBIND11):
        torch.manual_seed(5)
        drawn.append(tkjit.load(noise, binding=binding)(x(8)))
    assert torch.equal(*drawn)


def test_environment_variable_chooses_the_binding(monkeypatch):
    monkeypatch.setenv("TKJIT_BINDING", PYBIND11)
    assert type(tkjit.load("softmax")) is type(tkjit.load("softmax", binding=PYBIND11))
    monkeypatch.setenv("TKJIT_BINDING", "nanobind")
    with pytest.raises(TkjitError, match="TKJIT_BINDING"):
        tkjit.load("softmax")


def test_only_calls_are_supported():
    loaded = tkjit.load("softmax", binding=PYBIND11)
    for use in (lambda: loaded.prepare(x(3, 4)), lambda: loaded.operator, loaded.warm_up, lambda: loaded.symbol("a")):
        with pytest.raises(SpecError, match="it can only be called; load it without a binding for the rest"):
            use()


def test_unknown_binding():
    with pytest.raises(SpecError, match="unknown binding 'nanobind'; expected pybind11"):
        tkjit.load("softmax", binding="nanobind")
    with pytest.raises(SpecError, match="unknown binding 'nanobind'; expected pybind11"):
        tkjit.find("softmax").render(binding="nanobind")


def test_kernel_over_several_devices_is_rejected():
    with pytest.raises(SpecError, match="runs on several devices at once"):
        tkjit.load("all_reduce", binding=PYBIND11)
