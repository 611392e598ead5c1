"""Kernels under vmap, subclasses, modes, fake tensors, profilers and traces."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from support.operators import parts
from torch._subclasses.fake_tensor import FakeTensorMode

import tkjit

# inductor uses deprecated parts of torch
pytestmark = [pytest.mark.compiles, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]


def test_vmap():
    gemm = tkjit.load("gemm")
    a, b = torch.randn(3, 4, 5), torch.randn(5, 6)
    torch.testing.assert_close(torch.vmap(gemm, (0, None))(a, b), a @ b)
    b = torch.randn(5, 3, 6)
    torch.testing.assert_close(torch.vmap(gemm, (0, 1))(a, b), a @ b.transpose(0, 1))
    twice, square = torch.vmap(parts)(torch.arange(6.0).reshape(2, 3))
    torch.testing.assert_close(square, torch.arange(6.0).reshape(2, 3).square())
    torch.testing.assert_close(twice, 2 * torch.arange(6.0).reshape(2, 3))


def test_vmap_in_place():
    axpy = tkjit.load("axpy")
    x, y = torch.randn(4, 3), torch.randn(3, 4)
    expected = y + 2 * x.T
    torch.vmap(lambda x, y: axpy(x, y, 2.0), (0, 1))(x, y)
    torch.testing.assert_close(y, expected)
    with pytest.raises(tkjit.ArgumentError, match="y is written in place but has no batch"):
        torch.vmap(lambda x: axpy(x, torch.zeros(3)))(x)


def test_functional_gradients():
    softmax = tkjit.load("softmax")
    x, weight = torch.randn(3, 4), torch.randn(4)
    own = torch.func.grad(lambda x: (softmax(x) * weight).sum())(x)
    torch.testing.assert_close(own, torch.func.grad(lambda x: (x.softmax(-1) * weight).sum())(x))
    per_sample = torch.vmap(torch.func.grad(lambda row: (softmax(row) * weight).sum()))(x)
    torch.testing.assert_close(per_sample, own)


def test_fake_and_meta_tensors():
    gemm = tkjit.load("gemm")
    with FakeTensorMode():
        c = gemm(torch.empty(4, 8), torch.empty(8, 6))
    assert (c.shape, c.dtype, c.device.type) == ((4, 6), torch.float32, "cpu")
    c = gemm(torch.empty(4, 8, device="meta"), torch.empty(8, 6, device="meta"))
    assert (c.shape, c.device.type) == ((4, 6), "meta")
    with pytest.raises(tkjit.ShapeError, match=r"b is \(9, 6\) float32 on meta; expected \(K=8, N\)"):
        gemm(torch.empty(4, 8, device="meta"), torch.empty(9, 6, device="meta"))


class Logged(torch.Tensor):
    """A subclass that logs the functions called with it."""

    seen: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(str(function))
        return super().__torch_function__(function, types, args, kwargs or {})


def test_subclass_with_a_torch_function_sees_the_call():
    softmax = tkjit.load("softmax")
    x = torch.randn(3, 4)
    Logged.seen.clear()
    result = softmax(x.as_subclass(Logged))
    assert type(result) is Logged
    assert "tkjit.softmax.default" in Logged.seen
    torch.testing.assert_close(result.as_subclass(torch.Tensor), x.softmax(-1))


class Plain(torch.Tensor):
    """A subclass that overrides nothing."""


def test_plain_subclass_gets_its_own_type_back():
    x = torch.randn(3, 4)
    result = tkjit.load("softmax")(x.as_subclass(Plain))
    assert type(result) is Plain
    assert type(x.as_subclass(Plain).softmax(-1)) is Plain  # as torch's own operators do


def test_modes_see_the_call():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Dispatched(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    class Called(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    softmax, x = tkjit.load("softmax"), torch.randn(3, 4)
    for mode in (Dispatched, Called):
        seen: list[str] = []
        with mode():
            result = softmax(x)
        assert "tkjit.softmax.default" in seen, mode
        torch.testing.assert_close(result, x.softmax(-1))
    softmax(x)
    assert seen.count("tkjit.softmax.default") == 1  # the call after the mode has ended is not seen


def test_default_device_keeps_the_direct_call():
    from torch.utils._python_dispatch import TorchDispatchMode

    axpy = tkjit.load("axpy")
    x, y = torch.randn(3), torch.randn(3)
    axpy(x, y)

    def detour(*args, **kwargs):
        raise AssertionError("a call of the operator")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(axpy), "_call_operator", detour)
        with torch.device("cpu"):
            axpy(x, y)
        with TorchDispatchMode(), pytest.raises(AssertionError, match="a call of the operator"):
            axpy(x, y)


def test_profiler_shows_a_kernel_by_its_name():
    gemm, axpy = tkjit.load("gemm"), tkjit.load("axpy")
    a = torch.randn(16, 16)
    gemm(a, a)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        gemm(a, a)
        axpy(torch.randn(3), torch.randn(3))
    shown = {event.key: event.input_shapes for event in profile.key_averages(group_by_input_shape=True)}
    assert shown["tkjit::gemm"] == [[16, 16], [16, 16]]
    assert "tkjit::axpy" in shown


def test_jit_trace():
    softmax = tkjit.load("softmax")
    traced = torch.jit.trace(lambda x: softmax(x) * 2, (torch.randn(2, 3),))
    x = torch.randn(2, 3)
    torch.testing.assert_close(traced(x), x.softmax(-1) * 2)
    assert "tkjit::softmax" in str(traced.graph)


def test_nested_and_compiled_vmap_in_place():
    axpy = tkjit.load("axpy")
    x, y = torch.randn(2, 3, 4), torch.zeros(2, 3, 4)
    torch.vmap(torch.vmap(axpy))(x, y)
    torch.testing.assert_close(y, x)
    y.zero_()
    torch.compile(torch.vmap(axpy), backend="aot_eager")(x[0], y[0])
    torch.testing.assert_close(y[0], x[0])


def test_output_with_a_torch_function_handles_the_call():
    class Duck:
        seen: ClassVar[list] = []

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            cls.seen.append((function, args))

    duck, a = Duck(), torch.ones(2, 2)
    assert tkjit.load("gemm")(a, a, out=duck) is duck
    assert [(str(function), args[2]) for function, args in Duck.seen] == [("tkjit.gemm.out", duck)]
    with pytest.raises(
        tkjit.ArgumentError, match=r"twice is .*which stands in for a tensor; pass all outputs with it or none"
    ):
        parts(torch.ones(3), twice=duck)
