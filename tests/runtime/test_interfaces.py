"""Arrays without ``__dlpack__`` (capsules, the array interface, the buffer protocol), and conversions to values."""

import array

import numpy as np
import pytest
import torch

import tkjit
from tkjit import ArgumentError, In, Out, Scalar, ShapeError, Strided, Tensor

pytestmark = pytest.mark.compiles


class OldArray:
    """An array from before DLPack, which has only the array interface."""

    def __init__(self, held, **changes):
        self.held = held
        self.changes = changes

    @property
    def __array_interface__(self):
        return {**self.held.__array_interface__, **self.changes}


def plain_array(x):
    return array.array("f", x.tolist())


def buffer_of(x):
    return memoryview(bytearray(x.numpy().tobytes())).cast("f")


def capsule_of(x):
    return x.clone().__dlpack__()


def old_capsule_of(x):
    return torch.utils.dlpack.to_dlpack(x.clone())


def old_array_of(x):
    return OldArray(x.clone().numpy())


WAYS = [plain_array, buffer_of, capsule_of, old_capsule_of, old_array_of]


@pytest.fixture(params=["direct", "through the operator"])
def call(request):
    """Call a kernel directly, or under torch's profiler and so through its operator."""
    if request.param == "direct":
        return lambda kernel, *args, **kwargs: kernel(*args, **kwargs)

    def observed(kernel, *args, **kwargs):
        with torch.profiler.profile():
            return kernel(*args, **kwargs)

    return observed


@pytest.mark.parametrize("way", WAYS)
def test_an_array_is_read(call, way):
    axpy, y = tkjit.load("axpy"), torch.zeros(3)
    x = way(torch.tensor([1.0, 2.0, 3.0]))
    call(axpy, x, y, alpha=2.0)
    assert y.tolist() == [2, 4, 6]


@pytest.mark.parametrize("way", [plain_array, buffer_of, old_array_of])
def test_an_array_is_written(call, way):
    y = way(torch.zeros(3))
    call(tkjit.load("axpy"), torch.ones(3), y, alpha=2.0)
    assert list(y.held if isinstance(y, OldArray) else y) == [2, 2, 2]


def test_capsule_is_not_consumed():
    axpy, y, x = tkjit.load("axpy"), torch.zeros(3), capsule_of(torch.ones(3))
    axpy(x, y)
    axpy(x, y)
    assert y.tolist() == [2, 2, 2]
    assert torch.from_dlpack(x).tolist() == [1, 1, 1]
    with pytest.raises(ArgumentError, match=r"x is <capsule object .used_dltensor"):
        axpy(x, y)


def test_outputs_for_old_arrays_are_tensors():
    a = OldArray(np.eye(2, dtype=np.float32))
    product = tkjit.load("gemm")(a, a)
    assert isinstance(product, torch.Tensor) and product.tolist() == [[1, 0], [0, 1]]


@tkjit.kernel("__global__ void f(Globals g) { g.y[threadIdx.x] = g.x(threadIdx.x); }", entry="f", grid=1, block="N")
def copied(x: In[Strided, "float32", "N"], *, y: Out[Tensor, "float32", "N"]) -> Tensor: ...


def test_strides_of_old_arrays():
    x = np.arange(6, dtype=np.float32)
    assert copied(OldArray(x[::2])).tolist() == [0, 2, 4]
    assert copied(memoryview(x)[1::2]).tolist() == [1, 3, 5]
    with pytest.raises(ArgumentError, match="with a stride below zero"):
        copied(OldArray(x[::-1]))
    with pytest.raises(ArgumentError, match=r"expected a torch\.Tensor"):  # not a multiple of 4 bytes
        copied(OldArray(x, strides=(6,), shape=(2,)))


@pytest.mark.parametrize(
    ("y", "kind", "message"),
    [
        (b"abcd", ArgumentError, r"y is a read-only array"),
        (memoryview(b"abcd").cast("f"), ArgumentError, "y is a read-only array"),
        (OldArray(np.zeros(3)), ArgumentError, "expected .N=3,. of x's type float32"),
        (OldArray(np.zeros(3, ">f4")), ArgumentError, "expected .N=3,. of x's type float32"),
        (OldArray(np.array(["a"])), ArgumentError, "expected .N=3,. of x's type float32"),
        (OldArray(np.zeros(3), data=None), ArgumentError, "expected a torch.Tensor"),
        (OldArray(np.zeros(3), typestr=3), ArgumentError, "expected a torch.Tensor"),
        (array.array("f", [1]), ShapeError, "expected .N=3,. of x's type float32"),
        (bytearray(12), ArgumentError, "expected .N=3,. of x's type float32"),
        ("abcd", ArgumentError, "y is .abcd. .str.; expected a torch.Tensor"),
    ],
)
def test_invalid_arrays_are_rejected(y, kind, message):
    with pytest.raises(kind, match=message):
        tkjit.load("axpy")(torch.ones(3), y)


class OnGpu:
    __cuda_array_interface__ = {"shape": (3,), "typestr": "<f4", "data": (64, False), "version": 3}  # noqa: RUF012


@pytest.mark.skipif(torch.cuda.is_available(), reason="for a machine without a GPU")
def test_gpu_memory_on_a_machine_without_a_gpu():
    with pytest.raises(ArgumentError, match=r"x is .*OnGpu.*; expected a torch.Tensor"):
        tkjit.load("axpy")(OnGpu(), torch.ones(3))


HOST = """
#include <tkjit/containers.h>
#include <vector>
void fill(float* x, float* y, TkjitDtype dtype, TkjitDevice device, std::vector<int64_t> sizes) {
    y[0] = float(dtype), y[1] = float(device.type), y[2] = float(device.index), y[3] = float(sizes.size());
}
"""


@tkjit.kernel(HOST, entry="fill", host=True, args=True, fields="x y dtype device sizes")
def values(
    x: In[Tensor, "float32", "N"],
    dtype: torch.dtype,
    device: torch.device,
    sizes: list[int],
    *,
    y: Out[Tensor, "float32", 4],
) -> Tensor: ...


@pytest.mark.parametrize(
    ("dtype", "device", "sizes", "expected"),
    [
        (torch.float64, "cpu", [1, 2], [12, 0, -1, 2]),
        (np.float64, 3, 7, [12, 1, 3, 1]),
        (np.dtype("int8"), torch.device("cuda", 1), (), [2, 1, 1, 0]),
        (np.bool_, 0, [5], [0, 1, 0, 1]),
    ],
)
def test_dtypes_devices_and_sizes_of_other_types(call, dtype, device, sizes, expected):
    assert call(values, torch.ones(1), dtype, device, sizes).tolist() == expected


@pytest.mark.parametrize(
    ("name", "value"), [("dtype", np.str_), ("dtype", 3), ("device", True), ("device", -1), ("sizes", 1.5)]
)
def test_invalid_values_are_rejected(call, name, value):
    given = {"dtype": torch.float32, "device": "cpu", "sizes": [1], name: value}
    with pytest.raises(ArgumentError, match=f"values: {name} is "):
        call(values, torch.ones(1), **given)


def test_int_is_a_list_of_one_but_a_float_is_not():
    @tkjit.kernel("__global__ void g(Globals g) {}", entry="g", grid=1, block=1)
    def g(x: In[Tensor, "float32", "N"], n: Scalar[list[int], "int"]): ...

    g(torch.ones(1), 3)
    with pytest.raises(ArgumentError, match=r"n is 2.5"):
        g(torch.ones(1), 2.5)


class Passing:
    """An array that is created anew at each access."""

    @property
    def __array_interface__(self):
        made = np.full(1 << 16, 3, np.float32)
        return {**made.__array_interface__, "held": made}


def test_memory_of_an_interface_lives_as_long_as_the_call(call):
    y = torch.zeros(1 << 16)
    call(tkjit.load("axpy"), Passing(), y)
    assert (y == 3).all()


@pytest.mark.parametrize(
    "changes", [{"strides": (4,), "shape": (2, 2)}, {"shape": (-1,)}, {"mask": 3}, {"data": b"abcd"}]
)
def test_contradictory_interface_is_rejected(changes):
    with pytest.raises(ArgumentError, match=r"x is .*OldArray.*; expected a torch\.Tensor"):
        copied(OldArray(np.zeros(4, np.float32), **changes))


def test_interface_pointer_may_be_any_integer_type(call):
    x, y = np.array([1, 2, 3], np.float32), torch.zeros(3)
    pointer, read_only = x.__array_interface__["data"]
    call(tkjit.load("axpy"), OldArray(x, data=(np.uint64(pointer), read_only)), y, alpha=2.0)
    assert y.tolist() == [2, 4, 6]


def test_too_many_dims_are_rejected(call):
    with pytest.raises(tkjit.TkjitError):
        call(copied, memoryview(np.zeros((1,) * 9, np.float32)))


def test_misaligned_complex_numbers_are_rejected():
    @tkjit.kernel("__global__ void f(Globals g) { g.y[0] = g.x[0]; }", entry="f", grid=1, block=1)
    def f(x: In[Tensor, "complex128", "N"], *, y: Out[Tensor, "complex128", 1]): ...

    room = np.zeros(5 * 16, np.uint8)
    start = -room.ctypes.data % 16
    aligned = room[start : start + 16].view(np.complex128)
    assert f(aligned).shape == (1,)
    with pytest.raises(ArgumentError, match="not a multiple of 16 bytes"):
        f(room[start + 8 : start + 24].view(np.complex128))
