"""Kernels of this folder compile for GPUs: strided layouts, scratch, fills, random numbers."""

import runpy
from pathlib import Path

import pytest

import tkjit
from tkjit.compile.targets import gpu_target
from tkjit.spec import variants_of

pytestmark = pytest.mark.nvcc


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("test_strided.py", "double_heads"),
        pytest.param("test_strided.py", "row_sums", marks=pytest.mark.slow),
        pytest.param("test_scratch.py", "columns", marks=pytest.mark.slow),
        ("test_scratch.py", "of_complex"),
        pytest.param("test_random.py", "dropout", marks=pytest.mark.slow),
    ],
)
def test_kernel_compiles_for_hopper(loader, file, name):
    kernel: tkjit.Kernel = runpy.run_path(str(Path(__file__).with_name(file)))[name]
    (spec,) = kernel.specs
    entry = loader.launcher(spec, variants_of(spec)[-1], gpu_target("90a"))
    assert entry.manifest["spill_store_bytes"] == 0
