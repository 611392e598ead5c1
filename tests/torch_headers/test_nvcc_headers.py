"""Torch's headers that are used with the stand-ins compile with them, and so do the stand-ins by themselves."""

from __future__ import annotations

import pytest

from tkjit import cpp_extension
from tkjit.torch_headers.needed import TORCH_STAND_INS, USABLE_HEADERS

pytestmark = pytest.mark.nvcc

# parts of other headers, which either document this or cannot be included twice
PARTS = {
    "ATen/CollapseDims.h",
    "ATen/cuda/ApplyGridUtils.cuh",
    "ATen/cuda/detail/PhiloxCudaStateRaw.cuh",
    "ATen/cuda/detail/UnpackRaw.cuh",
    "c10/util/complex_math.h",
}


@pytest.mark.slow  # nvcc reads all headers
def test_every_header_compiles(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0a")
    stand_ins = {str(path.relative_to(TORCH_STAND_INS)) for path in TORCH_STAND_INS.rglob("*.*h")}
    headers = sorted((stand_ins | USABLE_HEADERS) - PARTS)
    path = tmp_path / "all.cu"
    lines = [f"#include <{header}>" for header in headers]
    path.write_text(
        "\n".join([*lines, "torch::Tensor f(torch::Tensor x) { return x + sizeof(c10::complex<float>); }", ""])
    )
    module = cpp_extension.load("all_headers", path)
    assert module.f.__doc__ is not None
