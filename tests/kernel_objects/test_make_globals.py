"""``make_globals``: the arguments of a launch, on one device and on several."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from support.devices import numbers, parts, signals, total

import tkjit
from tkjit import ArgumentError, InOut, Scalar, Tensor

pytestmark = pytest.mark.compiles


def test_make_globals_returns_the_arguments_of_each_device():
    x, own = parts(2, 10), numbers(2)
    first, second = tkjit.make_globals(total, x, own, signals(2), meetings=3)
    assert second["x"].data_ptrs == tuple(a.data_ptr() for a in x) and second["x"].dev_idx == 1
    assert second["x"].extents == (1, 1, 1, 10) and second["x"].dtype == "float32" and second["x"].multicast_ptr == 0
    assert second["own"].data_ptr == own[1].data_ptr() and first["own"].data_ptr == own[0].data_ptr()
    assert first["meetings"] == 3 and first["fails"] == -1
    assert first["y"].data_ptr == first.result[0].data_ptr() and list(first) == list(total.specs[0].order)


def test_make_globals_neither_compiles_the_kernel_nor_launches_it(cache_with_runtime, compiler):
    @tkjit.kernel("this is no C++ {", entry="nothing", grid=1, block=1)
    def nothing(x: InOut[Tensor, "float32", "N"], n: Scalar[int, "int64_t"] = -5) -> Tensor: ...

    x = torch.ones(3)
    (found,) = tkjit.make_globals(nothing, x)
    assert found["x"].data_ptr == x.data_ptr() and found["n"] == -5 and found.result is x
    with pytest.raises(ArgumentError, match="x is 3"):
        tkjit.make_globals(nothing, 3)


def test_globals_keep_their_tensors_alive():
    (values,) = tkjit.make_globals("axpy", torch.full((1000,), 3.0), torch.zeros(1000))
    gc.collect()
    torch.empty(1000).fill_(9)  # would reuse the memory if it were free
    data = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * 1000).from_address(values["x"].data_ptr))
    assert (data == 3).all()
