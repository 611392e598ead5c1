"""Functions of an exported library on tensors and on plain pointers: what they compute, allocate and own."""

from __future__ import annotations

import ctypes
import random
import threading

import pytest
import torch
from support.exported import NUMBERS, CTensor, Device, Failed, c_tensor

pytestmark = pytest.mark.compiles
CPU = Device(0, 0)
FLOAT32 = NUMBERS["float32"]


def values(tensor: CTensor) -> torch.Tensor:
    """The elements of a float32 tensor that the library has made."""
    sizes = tensor.sizes[: tensor.ndim]
    count = torch.Size(sizes).numel()
    return torch.tensor((ctypes.c_float * count).from_address(tensor.data or 0)[:] if count else []).view(sizes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_given_and_allocated_outputs(zoo, dtype):
    a, b = torch.randn(33, 17).to(dtype), torch.randn(17, 40).to(dtype)
    c = torch.empty(33, 40, dtype=dtype)
    zoo("gemm", a, b, c)
    assert torch.allclose(c.float(), a.float() @ b.float(), atol=0.1)
    made = CTensor()
    zoo("gemm", a, b, made)
    assert made.dtype == NUMBERS[str(dtype)[6:]] and made.sizes[:2] == [33, 40] and made.strides[:2] == [40, 1]
    assert ctypes.string_at(made.data, made.sizes[0] * made.strides[0] * c.itemsize) == bytes(
        c.view(torch.uint8).flatten().tolist()
    )
    zoo.common("tensor_free", made)


def test_shape_function_describes_the_output(zoo):
    x, y = torch.randn(2, 3, 5), CTensor()
    zoo("softmax_shape", x, y)
    assert y.ndim == 3 and y.sizes[:3] == [2, 3, 5] and not y.data and not y.memory
    zoo("softmax", x, y)  # allocates an output of that shape
    assert torch.allclose(values(y), x.softmax(-1))
    zoo.common("tensor_free", y)
    output = torch.zeros(7)
    with pytest.raises(Failed, match="expected"):
        zoo("softmax_shape", torch.ones(2, dtype=torch.int8), c_tensor(output))


def test_plain_pointers(zoo):
    a, b, c = torch.randn(3, 4), torch.randn(4, 5), torch.empty(3, 5)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (a, b, c)]
    zoo("gemm_pointers", *pointers, 3, 4, 5, ctypes.c_int32(FLOAT32), CPU)
    assert torch.allclose(c, a @ b, atol=1e-5)
    with pytest.raises(Failed, match="the argument c is missing"):
        zoo("gemm_pointers", pointers[0], pointers[1], None, 3, 4, 5, ctypes.c_int32(FLOAT32), CPU)
    x, y = torch.randn(2, 3, 4), torch.empty(2, 3, 4)
    leading = (ctypes.c_int64 * 2)(2, 3)
    memory = [ctypes.c_void_p(t.data_ptr()) for t in (x, y)]
    zoo("softmax_pointers", *memory, ctypes.c_int32(2), leading, 4, ctypes.c_int32(FLOAT32), CPU)
    assert torch.allclose(y, x.softmax(-1))
    with pytest.raises(Failed, match="of 10 dimensions; expected 0 to 8"):
        zoo("softmax_pointers", *memory, ctypes.c_int32(9), leading, 4, ctypes.c_int32(FLOAT32), CPU)
    with pytest.raises(Failed, match="expected extents that are not negative"):
        zoo("softmax_pointers", *memory, ctypes.c_int32(2), None, 4, ctypes.c_int32(FLOAT32), CPU)


def test_plain_pointers_with_strides(zoo):
    x, y = torch.arange(12.0), torch.empty(3, 4)
    strides = (ctypes.c_int64 * 2)(1, 4)  # x is column-major
    zoo("turn_pointers", ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), strides, None, 4, 3, CPU)
    assert torch.equal(y, x.view(3, 4))


def test_empty_tensors(zoo):
    made = CTensor()
    zoo("gemm", torch.empty(0, 3), torch.empty(3, 4), made)
    assert made.sizes[:2] == [0, 4]
    zoo.common("tensor_free", made)
    zoo("gemm_pointers", None, None, None, 0, 0, 0, ctypes.c_int32(FLOAT32), CPU)


def test_values_of_every_kind(zoo):
    x, acc, y = torch.ones(2, 3), torch.zeros(2), torch.empty(3)
    bias, shift = torch.arange(3.0), ctypes.byref(ctypes.c_int64(10))
    zoo("mix", x, acc, bias, 2.0, 1, shift, True, 1, 1, y)
    assert y.tolist() == [13, 14, 15] and acc.tolist() == [1, 1]
    zoo("mix", x, acc, None, 2.0, 1, None, False, 1, 2, y)
    assert y.tolist() == [2, 2, 2] and acc.tolist() == [2, 2]
    four = torch.zeros(4)
    zoo("pick", torch.arange(10.0), [7, 3], [0.5], four)
    assert four.tolist()[:2] == [7.5, 3]
    zoo("pick", torch.arange(10.0), [7, 3], None, 0, four)  # null: the default weights
    assert four.tolist()[:2] == [7.75, 3]
    two = torch.empty(2)
    zoo("add", [torch.ones(2), None, torch.ones(2)], two)
    assert two.tolist() == [2, 2]
    result = ctypes.c_int64()
    zoo("describe", torch.ones(1), "four", ctypes.c_int32(FLOAT32), CPU, ctypes.byref(result))
    assert result.value == 4000 + 10 * FLOAT32


def test_random_numbers_are_those_of_the_seed(zoo):
    x, first, second = torch.empty(5), torch.empty(5), torch.empty(5)
    seed, offset = ctypes.c_uint64(7), ctypes.c_uint64(0)
    zoo("noise", x, seed, offset, first)
    zoo("noise", x, seed, offset, second)
    assert torch.equal(first, second) and first.unique().numel() == 5
    zoo("noise", x, seed, ctypes.c_uint64(4), second)
    assert not torch.equal(first, second)
    with pytest.raises(Failed, match="an offset that is a multiple of 4"):
        zoo("noise", x, seed, ctypes.c_uint64(3), second)


# ---- ownership


def new(zoo, *sizes: int) -> CTensor:
    made = CTensor()
    extents = (ctypes.c_int64 * len(sizes))(*sizes)
    zoo.common("tensor_new", made, ctypes.c_int32(FLOAT32), CPU, ctypes.c_int32(len(sizes)), extents)
    return made


def copied(tensor: CTensor) -> CTensor:
    return CTensor.from_buffer_copy(tensor)


def test_use_of_freed_memory_is_detected(zoo):
    x = new(zoo, 2, 3)
    view = copied(x)
    zoo.common("tensor_free", x)
    assert x.abi == 0 and not x.data
    zoo.common("tensor_free", x)  # freeing a zeroed tensor does nothing
    for _ in range(2):
        with pytest.raises(Failed, match="tensor_free: the tensor is already freed"):
            zoo.common("tensor_free", view)
    with pytest.raises(Failed, match="softmax: x is already freed"):
        zoo("softmax", view, CTensor())
    with pytest.raises(Failed, match="softmax: y is already freed"):
        zoo("softmax", torch.ones(2, 3), copied(view))
    again = [new(zoo, 2, 3) for _ in range(100)]  # one of these reuses the freed block, with another generation
    with pytest.raises(Failed, match="is already freed"):
        zoo("softmax", view, CTensor())
    for tensor in again:
        zoo.common("tensor_free", tensor)


def test_failed_call_leaves_the_output_untouched(zoo):
    made = CTensor()
    with pytest.raises(Failed):
        zoo("gemm", torch.ones(2, 3), torch.ones(2, 3), made)
    assert made.abi == 0 and not made.memory


def test_allocation_of_too_much_memory_fails(zoo):
    with pytest.raises(Failed, match="is more memory than there is"):
        new(zoo, 2**40, 2**40)
    with pytest.raises(Failed, match=rf"out of memory: {4 * 2**55} bytes on cpu") as raised:
        new(zoo, 2**55)
    assert raised.value.kind == "MemoryError"
    zoo.common("tensor_free", new(zoo, 3))


def test_copies(zoo):
    x, y = torch.arange(6.0).view(2, 3), torch.zeros(2, 3)
    zoo.common("tensor_copy", y, x, None)
    assert torch.equal(x, y)
    with pytest.raises(Failed, match=r"to is \(3, 2\) float32 on cpu; expected it like \(2, 3\) float32"):
        zoo.common("tensor_copy", torch.zeros(3, 2), x, None)
    with pytest.raises(Failed, match="to is null"):
        zoo.common("tensor_copy", None, x, None)


def test_dlpack(zoo):
    """Tensors go from torch to the library and back without a copy."""
    x = torch.arange(6.0).view(2, 3)
    capsule = x.__dlpack__(max_version=(1, 1))
    take = ctypes.pythonapi.PyCapsule_GetPointer
    take.restype, take.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    managed = ctypes.c_void_p(take(capsule, b"dltensor_versioned"))
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    used = b"used_dltensor_versioned"
    rename(capsule, used)
    tensor = CTensor()
    zoo.common("tensor_from_dlpack", tensor, managed)
    assert tensor.data == x.data_ptr() and tensor.sizes[:2] == [2, 3]
    y = torch.empty(2, 3)
    zoo("softmax", tensor, y)
    assert torch.allclose(y, x.softmax(-1))
    back = ctypes.c_void_p()
    zoo.common("tensor_to_dlpack", tensor, ctypes.byref(back))
    assert tensor.abi == 0
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    seen = torch.from_dlpack(make(back, b"dltensor_versioned", None))
    assert seen.data_ptr() == x.data_ptr() and torch.equal(seen, x)
    with pytest.raises(Failed, match="managed is null"):
        zoo.common("tensor_from_dlpack", tensor, None)


def test_threads_do_not_share_errors_or_tensors(zoo):
    """8 threads allocate, fail and free at once; none gets a wrong text, or the tensor of another thread."""
    wrong: list[str] = []

    def work(number: int) -> None:
        mine = random.Random(number)
        x = torch.ones(number + 1, 3)
        for _ in range(200):
            made = CTensor()
            try:
                if mine.random() < 0.5:
                    zoo("gemm", x, torch.ones(number + 2, 4), made)
                zoo("softmax", x, made)
                if made.sizes[0] != number + 1 or not torch.allclose(values(made), x.softmax(-1)):
                    wrong.append("a tensor of another thread")
                zoo.common("tensor_free", made)
            except Failed as error:
                text = f"gemm: b is ({number + 2}, 4) float32 on cpu; expected (K=3, N) of a's type float32; dim 0 is"
                if not str(error).startswith(text):
                    wrong.append(str(error))

    threads = [threading.Thread(target=work, args=(number + 2,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("interface", "text"),
    [
        ("tensors=1 version=1 gemm=000", "the program was compiled for another gemm than this library has"),
        ("tensors=2", "the program was compiled for another tensors than this library has"),
        ("matmul=000", "this library has no matmul, for which the program was compiled"),
        (None, "the interface is null"),
    ],
)
def test_interface_mismatch_is_reported(zoo, interface, text):
    with pytest.raises(Failed, match=f"zoo: {text}"):
        zoo._call("zoo_check_interface", [interface])
    zoo._call("zoo_check_interface", ["tensors=1 version=1"])


def test_sizes_that_overflow_are_rejected(zoo):
    """A product of extents that wraps around is not mistaken for a small size."""
    tensor = c_tensor(torch.ones(1, 1, 1, 1))
    for i in range(4):
        tensor.sizes[i], tensor.strides[i] = 65536, 65536 ** (3 - i) % 2**63
    tensor.data = None
    with pytest.raises(Failed, match=r"\(65536, 65536, 65536, 65536\) .*, which is more memory than there is"):
        zoo("softmax", tensor, CTensor())
    wide = c_tensor(torch.ones(2, 2))
    wide.strides[0] = 2**62
    with pytest.raises(Failed, match="which is more memory than there is"):
        zoo("turn", wide, CTensor())


def test_tensor_without_memory_cannot_be_copied(zoo):
    y = CTensor()
    zoo("softmax_shape", torch.ones(2, 3), y)
    for to, of in ((y, torch.ones(2, 3)), (torch.ones(2, 3), y)):
        with pytest.raises(Failed, match="has no memory: its data is null"):
            zoo.common("tensor_copy", to, of, None)
    managed = ctypes.c_void_p()
    with pytest.raises(Failed, match="has no memory: its data is null"):
        zoo.common("tensor_to_dlpack", y, ctypes.byref(managed))


def test_shape_query_rejects_a_tensor_that_owns_memory(zoo):
    y = new(zoo, 4)
    with pytest.raises(Failed, match="softmax: y owns memory, which would be lost"):
        zoo("softmax_shape", torch.ones(2, 3), y)
    zoo.common("tensor_free", y)
