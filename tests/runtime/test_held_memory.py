"""Tensors that change during a call, by hooks of other arguments or by other threads."""

import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch
from support.hooks import Number, Producer, Stop, raising

import tkjit
from tkjit import ArgumentError, In, InOut, Out, Scalar, Tensor

# each test runs for each reader
pytestmark = [pytest.mark.compiles, pytest.mark.usefixtures("reading")]
BIG = 1 << 22  # elements; the allocator returns memory of this size to the system at once


CHANGES = {
    "freed": lambda x: x.untyped_storage().resize_(0),
    "resized": lambda x: x.resize_(4 * BIG),
    "reshaped": lambda x: x.resize_(2, BIG // 2),
    "another storage": lambda x: x.set_(torch.zeros(BIG)),
    "a smaller storage": lambda x: x.set_(torch.zeros(3)),
    "other data": lambda x: setattr(x, "data", torch.zeros(BIG, dtype=torch.float64)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_earlier_tensor_changes_while_an_array_is_read(change):
    x, y = torch.ones(BIG), np.zeros(BIG, np.float32)
    with pytest.raises(ArgumentError, match="axpy: x was given another shape or other memory while the call was being"):
        tkjit.load("axpy")(x, Producer(y, lambda: CHANGES[change](x)))
    assert not y.any()


def test_a_tensor_changes_before_it_is_read():
    x, y = torch.ones(3), torch.zeros(4)
    tkjit.load("axpy")(x, y, Number(lambda: x.set_(torch.full((4,), 3.0))))
    assert y.tolist() == [6.0] * 4


def test_earlier_tensor_changes_while_a_list_is_read():
    class List(list):
        def __iter__(self):
            x.untyped_storage().resize_(0)
            return super().__iter__()

    x = torch.ones(BIG)
    with pytest.raises(ArgumentError, match="total: x was given another shape or other memory"):
        total(x, List([torch.ones(BIG)]))


@tkjit.kernel(
    "template <class T> __global__ void total(Globals g) { g.y[0] = g.x[0] + g.xs[0][0]; }",
    entry="total<T>",
    grid=1,
    block=1,
    variants={"T": ("float32",)},
)
def total(x: In[Tensor, "T", "N"], xs: In[list[Tensor], "T", "N"], y: Out[Tensor, "T", "1"]) -> Tensor: ...


# ---- while the kernel runs

GATE = """
#include <atomic>
#include <chrono>
#include <thread>
// Reports that it runs, and waits for permission to continue.
inline void add_slowly(float* x, const float* y, int64_t gate, int n) {
    auto& state = *reinterpret_cast<std::atomic<int>*>(gate);
    state = 1;
    for (int i = 0; state != 2 && i < 10000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int i = 0; i < n; ++i) x[i] += y[i];
}
"""


@tkjit.kernel(GATE, entry="add_slowly", args=True, host=True, computed={"n": "N"}, fields="x y gate n")
def add_slowly(
    x: InOut[Tensor, "float32", "N"], y: In[Tensor, "float32", "N"], gate: Scalar[int, "int64_t"]
) -> None: ...


def during(call: Callable[[int], object], action: Callable[[], object]) -> None:
    """Run an action in this thread while a kernel runs in another."""
    state = np.zeros(1, np.int32)
    raised = []

    def target() -> None:
        try:
            call(state.ctypes.data)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    try:
        while state[0] == 0 and thread.is_alive():
            pass
        assert not raised
        action()
    finally:
        state[0] = 2
        thread.join()
    assert not raised


@pytest.mark.slow
def test_a_tensor_gets_another_storage_while_the_kernel_runs():
    x, y = torch.zeros(BIG), torch.ones(BIG)
    alias = x.detach()  # shows what the kernel wrote
    gone = weakref.ref(y.untyped_storage())

    def swap() -> None:
        y.set_(torch.zeros(3))
        x.data = torch.zeros(3)

    during(lambda gate: add_slowly(x, y, gate), swap)
    assert alias[0] == 1 and alias[-1] == 1
    del y
    assert gone() is None  # the storage has been released


@pytest.mark.parametrize("change", [lambda x: x.resize_(4 * BIG), lambda x: x.untyped_storage().resize_(0)])
def test_a_storage_cannot_be_resized_while_a_kernel_uses_it(change):
    x, y = torch.zeros(BIG), torch.ones(BIG)
    alias = x.detach()  # torch leaves the new sizes on a tensor that it fails to resize

    def resize() -> None:
        for tensor in (x, y):
            with pytest.raises(RuntimeError, match="not resizable"):
                change(tensor)

    during(lambda gate: add_slowly(x, y, gate), resize)
    assert alias[0] == 1 and alias[-1] == 1
    change(y)


def test_a_storage_stays_fixed_until_its_last_launch_has_ended():
    x, other, y = torch.zeros(8), torch.zeros(8), torch.ones(8)

    def inner() -> None:
        during(lambda gate: add_slowly(other, y, gate), lambda: None)
        with pytest.raises(RuntimeError, match="not resizable"):
            y.resize_(100)

    during(lambda gate: add_slowly(x, y, gate), inner)
    assert y.resize_(100).numel() == 100


# ---- exceptions from hooks


def test_exception_from_an_arrays_hook_becomes_the_cause():
    error = ValueError("mine")
    for call in (
        lambda: tkjit.load("axpy")(torch.zeros(4), Producer(np.zeros(4, np.float32), raising(error))),
        lambda: tkjit.load("axpy")(torch.zeros(4), torch.zeros(4), Number(raising(error))),
        lambda: torch.vmap(lambda x: tkjit.load("softmax")(x, out=Producer(np.zeros(4), raising(error))))(
            torch.zeros(2, 4)
        ),
        lambda: either(Producer(np.zeros(4, np.float32), raising(error))),
    ):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert caught.value.__cause__ is error


def test_object_that_raises_for_every_attribute_is_named():
    class Odd:
        def __getattr__(self, name):
            raise ValueError(name)

        def __repr__(self):
            raise ValueError("repr")

    axpy, freed = tkjit.load("axpy"), torch.zeros(BIG)
    freed.untyped_storage().resize_(0)
    with pytest.raises(ArgumentError, match=r"y is an object that cannot be shown \(list\); expected a torch.Tensor"):
        axpy(torch.zeros(4), [freed])  # torch cannot print this tensor
    for call in (lambda: axpy(torch.zeros(4), Odd()), lambda: axpy(torch.zeros(4), torch.zeros(4), Odd())):
        with pytest.raises(ArgumentError, match=r"axpy: .* is an object that cannot be shown \(Odd\); expected a "):
            call()
    with pytest.raises(ArgumentError, match="cannot be shown"):
        torch.vmap(lambda x: axpy(x, Odd()))(torch.zeros(2, 4))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Stop, MemoryError])
def test_unrelated_exceptions_propagate(kind):
    class Odd:
        def __getattr__(self, name):
            raise kind

    for call in (
        lambda: tkjit.load("axpy")(torch.zeros(4), Producer(np.zeros(4, np.float32), raising(kind()))),
        lambda: tkjit.load("axpy")(torch.zeros(4), torch.zeros(4), Number(raising(kind()))),
        lambda: tkjit.load("axpy")(torch.zeros(4), Odd()),
        lambda: either(Producer(np.zeros(4, np.float32), raising(kind()))),
    ):
        with pytest.raises(kind):
            call()


@tkjit.kernel("__global__ void f(Globals g) { g.x[0] += 1; }", entry="f", grid=1, block=1)
def either(x: InOut[Tensor, "float32", "N"]) -> None: ...


@either.overload("__global__ void f(Globals g) { g.x[0] += 1; }", entry="f", grid=1, block=1)
def either(x: InOut[Tensor, "float64", "N"]) -> None: ...


# ---- partly shared memory


def test_tensor_written_in_place_must_not_share_part_of_an_input():
    axpy, memory = tkjit.load("axpy"), torch.ones(8)
    for x, y in ((memory[:5], memory[2:7]), (memory[:4].numpy(), memory[3:7]), (memory[:2], memory[1:3])):
        with pytest.raises(
            ArgumentError, match="axpy: unsupported operation: y, which is written to, shares some but not all of its"
        ):
            axpy(x, y)
    assert axpy(memory[:4], memory[4:]).tolist() == [2.0] * 4
    assert axpy(memory, memory).tolist() == [2.0] * 4 + [4.0] * 4  # sharing all memory is allowed
    assert axpy(memory[3:3], memory[3:3]).numel() == 0
    with pytest.raises(
        ArgumentError, match=r"xs\[0\], which is .* some but not all of its memory with xs\[1\]; pass a copy of xs\[1\]"
    ):
        increment([memory[:4], memory[2:6]])
    increment([memory[:4], memory[4:]])


@tkjit.kernel("__global__ void f(Globals g) { g.xs[blockIdx.x][threadIdx.x] += 1; }", entry="f", grid=2, block="N")
def increment(xs: InOut[list[Tensor], "float32", "N"]) -> None: ...


# ---- kinds of tensors


def test_a_functional_tensor_goes_to_the_operator():
    x = torch._to_functional_tensor(torch.ones(4))
    y = tkjit.load("softmax")(x)
    assert torch._is_functional_tensor(y)
    torch._sync(y)
    assert torch._from_functional_tensor(y).tolist() == [0.25] * 4


def test_negative_strides_are_rejected_before_torch_sees_them():
    softmax = tkjit.load("softmax")
    out = np.zeros((3, 4), np.float32)[::-1]
    for array in (out, np.zeros((3, 4), np.float32)[:, ::-1]):
        with pytest.raises(ArgumentError, match=r"y is \(3, 4\) float32.*, which is not contiguous; pass a contiguous"):
            torch.vmap(lambda x, array=array: softmax(x, out=array))(torch.ones(3, 4))
