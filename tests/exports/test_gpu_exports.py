"""Exports on a GPU: code for its architecture, streams, memory of the library, and rejected calls."""

from __future__ import annotations

import ctypes

import pytest
import torch
from support.exported import NUMBERS, CTensor, Device, Failed, Library, c_tensor

import tkjit

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def library(gpu, tmp_path_factory) -> Library:
    major, minor = torch.cuda.get_device_capability(gpu)
    archs = ["cpu", f"{major}{minor}{'a' if major >= 9 else ''}"]
    output = tmp_path_factory.mktemp("exports") / "both"
    return Library(tkjit.export("axpy", "softmax", "gemm", name="both", output=output, archs=archs), "both")


def on_gpu(tensor: torch.Tensor) -> CTensor:
    return c_tensor(tensor, device=Device(1, tensor.device.index or 0))


def test_given_outputs_in_a_stream(library, gpu):
    a, b = torch.randn(65, 33, device=gpu), torch.randn(33, 70, device=gpu)
    c = torch.zeros(65, 70, device=gpu)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    library("gemm", on_gpu(a), on_gpu(b), on_gpu(c), stream=ctypes.c_void_p(stream.cuda_stream).value)
    stream.synchronize()
    assert torch.allclose(c, a @ b, atol=1e-3)


def test_allocated_outputs_and_copies(library, gpu):
    x, y, back = torch.randn(5, 9), CTensor(), torch.empty(5, 9)
    moved = CTensor()
    sizes = (ctypes.c_int64 * 2)(5, 9)
    library.common("tensor_new", moved, ctypes.c_int32(NUMBERS["float32"]), Device(1, 0), ctypes.c_int32(2), sizes)
    library.common("tensor_copy", moved, x, None)
    library("softmax", moved, y)
    assert (y.device.type, y.device.index) == (1, 0)
    library.common("tensor_copy", back, y, None)
    assert torch.allclose(back, x.softmax(-1), atol=1e-6)
    for tensor in (moved, y):
        library.common("tensor_free", tensor)


def test_both_devices_in_one_library(library, gpu):
    y = torch.ones(4)
    library("axpy", torch.ones(4), y, 2.0)
    assert y.tolist() == [3, 3, 3, 3]
    with pytest.raises(Failed, match=r"axpy: y is .* on cpu; expected cuda:0, where x is"):
        library("axpy", on_gpu(torch.ones(4, device=gpu)), y, 2.0)


def test_missing_device_is_reported(library):
    made = CTensor()
    sizes = (ctypes.c_int64 * 1)(3)
    with pytest.raises(Failed, match="cuda:99"):
        library.common("tensor_new", made, ctypes.c_int32(NUMBERS["float32"]), Device(1, 99), ctypes.c_int32(1), sizes)


def test_missing_code_for_the_device_is_reported(gpu, tmp_path):
    major, _ = torch.cuda.get_device_capability(gpu)
    other = "80" if major != 8 else "90a"
    library = Library(
        tkjit.export("axpy", name="lib", output=tmp_path / "made", archs=[other], types=["float32"]), "lib"
    )
    x = torch.ones(4, device=gpu)
    with pytest.raises(
        Failed, match=f"axpy: this library has no code for cuda:0, which is sm_.*; it has code for sm_{other}"
    ):
        library("axpy", on_gpu(x), on_gpu(x.clone()), 2.0)
