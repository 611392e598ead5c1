"""A torch package with code for GPUs, built by a CPU build of torch."""

from __future__ import annotations

import subprocess

import pytest
from support.torch_package import PACKAGE, build, run

import tkjit
from tkjit.config import Settings
from tkjit.extensions.stable_abi import unstable_symbols
from tkjit.loader import loader_for

pytestmark = pytest.mark.nvcc


@pytest.mark.slow  # nvcc compiles a whole package
def test_package_has_code_for_gpus_and_runs_on_the_cpu(tmp_path):
    given = {"archs": ["cpu", "90a", "80"], "types": ["float32"], "languages": ["torch"]}
    directory = tkjit.export("gemm", "softmax", "axpy", name=PACKAGE, output=tmp_path / PACKAGE, **given)
    built = build(directory, CUDA_HOME=str(loader_for(Settings.from_environment()).toolchain.cuda_root))
    (library,) = built.glob(f"{PACKAGE}/_C*.so")
    assert list(unstable_symbols(library)) == []
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "cudart" not in needed and "c10_cuda" not in needed
    code = library.read_bytes()
    assert b"sm_90a" in code and b"sm_80" in code
    assert "passed" in run(built, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory / "tests"))
