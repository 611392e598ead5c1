"""Elements of each dtype and integers at their limits, also in the child of a fork."""

import os
import time

import pytest
import torch
from support.define import define

import tkjit
from tkjit import In, InOut, Out, Scalar, Tensor
from tkjit.spec.dtypes import DTYPES

pytestmark = pytest.mark.compiles
COPIED = ("bool", "int8", "uint16", "int64", "float64", "float16", "complex64", "complex128")


@tkjit.kernel(
    "template <class T> __global__ void copy(Globals g) {"
    " static_assert(sizeof(T) == sizeof(g.x[0]) && std::is_same_v<T, std::remove_reference_t<decltype(g.y[0])>>);"
    " g.y[threadIdx.x] = g.x[threadIdx.x]; }",
    entry="copy<T>",
    grid=1,
    block="N",
    variants={"T": COPIED},
)
def copy(x: In[Tensor, "T", "N"], *, y: Out[Tensor, "T", "N"] = None) -> Tensor: ...


@tkjit.kernel(
    "template <class T> __global__ void add(Globals g) { g.y[0] = g.x[0]; }",
    entry="add<T>",
    grid=1,
    block=1,
    variants={"T": tuple(dtype.name for dtype in DTYPES)},
)
def of_any_dtype(x: In[Tensor, "T", "N"], y: InOut[Tensor, "T", "N"]) -> Tensor: ...


def test_each_reader_knows_each_dtype(reading):
    refusals = {}
    for dtype in DTYPES:
        x, y = (torch.empty(count, dtype=getattr(torch, dtype.name)) for count in (3, 4))
        with pytest.raises(tkjit.TkjitError) as caught:
            of_any_dtype(x, y)  # the extents differ, so no launcher is built
        refusals[dtype.name] = str(caught.value)
    assert {name: text for name, text in refusals.items() if "of x's type" not in text} == {}


@pytest.mark.parametrize("name", COPIED)
def test_elements_of_each_dtype_keep_their_values(name):
    dtype = getattr(torch, name)
    if name == "bool":
        x = torch.tensor([True, False, True])
    elif dtype.is_complex:
        x = torch.tensor([1 + 2j, -0.5j, complex("nan"), 1e30], dtype=dtype)
    elif dtype.is_floating_point:
        limits = torch.finfo(dtype)
        x = torch.tensor([limits.max, limits.tiny, -limits.eps, float("inf")], dtype=dtype)
    else:
        limits = torch.iinfo(dtype)
        x = torch.tensor([limits.min, limits.max, 1], dtype=dtype)
    y = copy(x)
    assert y.dtype == dtype and torch.equal(y.view(torch.uint8), x.view(torch.uint8))


@tkjit.kernel(
    "__global__ void f(Globals g) { g.y[0] = g.a; g.y[1] = g.b; g.y[2] = g.c; g.y[3] = g.d; g.y[4] = g.e; }",
    entry="f",
    grid=1,
    block=1,
)
def limits(
    y: InOut[Tensor, "int64", 5],
    a: Scalar[int, "int64_t"] = -(2**63),
    b: Scalar[int, "int64_t"] = 2**63 - 1,
    c: Scalar[int, "uint32_t"] = 2**32 - 1,
    d: Scalar[int, "int8_t"] = -128,
    e: Scalar[int, "uint64_t"] = 0,
) -> Tensor: ...


def test_integers_at_their_limits():
    y = torch.zeros(5, dtype=torch.int64)
    assert limits(y).tolist() == [-(2**63), 2**63 - 1, 2**32 - 1, -128, 0]
    assert limits(y, 2**63 - 1, -(2**63), 0, 127, 2**63 - 1).tolist() == [2**63 - 1, -(2**63), 0, 127, 2**63 - 1]
    for name, value, low, high in [
        ("a", 2**63, -(2**63), 2**63 - 1),
        ("a", -(2**63) - 1, -(2**63), 2**63 - 1),
        ("c", 2**32, 0, 2**32 - 1),
        ("c", -1, 0, 2**32 - 1),
        ("d", 128, -128, 127),
        ("e", -1, 0, 2**63 - 1),
    ]:
        with pytest.raises(tkjit.ArgumentError) as raised:
            limits(y, **{name: value})
        assert str(raised.value) == f"limits: {name} is {value} (int); expected an int from {low} to {high}"


def test_calls_after_a_fork():
    x = torch.zeros(2, dtype=torch.int32)
    assert copy(torch.tensor([True])).tolist() == [True]
    loaded = tkjit.load(limits)
    loaded(torch.zeros(5, dtype=torch.int64))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            known = loaded(torch.zeros(5, dtype=torch.int64)).tolist()[1] == 2**63 - 1
            fresh = define(
                "__global__ void f(Globals g) { g.x[threadIdx.x] += 5; }",
                '(x: InOut[Tensor, "int32", "N"]) -> Tensor',
                entry="f",
                grid=1,
                block="N",
            )
            status = 0 if known and fresh(x).tolist() == [5, 5] else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 0
    assert x.tolist() == [0, 0]
    assert copy(torch.tensor([False])).tolist() == [False]
