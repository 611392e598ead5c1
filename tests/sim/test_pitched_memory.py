"""cudaMalloc3D and copies of boxes."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from support.simulator.compiled import compile_source

pytestmark = pytest.mark.compiles
# copies the box of 3 x 2 x 2 ints at (1, 1, 1) of x, whose rows of 5 ints are not padded; y is -1 elsewhere
SOURCE = """
#include <cuda_runtime.h>
#include <string.h>
extern "C" __attribute__((visibility("default"))) int box(const int* x, int* y) {
    cudaPitchedPtr memory;
    const cudaExtent whole = make_cudaExtent(5 * sizeof(int), 4, 3);
    if (cudaMalloc3D(&memory, whole)) return 1;
    if (memory.pitch % 512 || memory.pitch < whole.width || cudaMemset3D(memory, 255, whole)) return 2;
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(const_cast<int*>(x), 5 * sizeof(int), 5 * sizeof(int), 4);
    copy.dstPtr = memory;
    copy.srcPos = copy.dstPos = make_cudaPos(sizeof(int), 1, 1);
    copy.extent = make_cudaExtent(3 * sizeof(int), 2, 2);
    copy.kind = cudaMemcpyHostToDevice;
    if (cudaMemcpy3D(&copy)) return 3;
    copy = {};
    copy.srcPtr = memory;
    copy.dstPtr = make_cudaPitchedPtr(y, 5 * sizeof(int), 5 * sizeof(int), 4);
    copy.extent = whole;
    copy.kind = cudaMemcpyDeviceToHost;
    const int error = cudaMemcpy3D(&copy);
    cudaFree(memory.ptr);
    return error;
}
"""


def test_a_box_is_copied(tmp_path):
    source = tmp_path / "pitched.cu"
    source.write_text(SOURCE)
    x, y = np.arange(60, dtype=np.int32).reshape(3, 4, 5), np.zeros((3, 4, 5), np.int32)
    box = compile_source(source, tmp_path).functions.box
    assert box(*(array.ctypes.data_as(ctypes.c_void_p) for array in (x, y))) == 0
    expected = np.full_like(x, -1)
    expected[1:3, 1:3, 1:4] = x[1:3, 1:3, 1:4]
    np.testing.assert_array_equal(y, expected)
