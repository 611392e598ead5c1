"""Exported torch packages on a GPU, with both bindings: their own tests also pass there."""

from __future__ import annotations

import re

import pytest
import torch
from support.exportable import mix, noise
from support.operators import scale
from support.torch_package import PACKAGE, build, run

import tkjit

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("binding", ["stable", "pybind11"])
def test_tests_of_the_package_pass(gpu, tmp_path, binding):
    major, minor = torch.cuda.get_device_capability(gpu)
    given = {"archs": ["cpu", f"{major}{minor}{'a' if major >= 9 else ''}"], "languages": ["torch"], "binding": binding}
    kernels = ("gemm", "softmax", "axpy", mix, noise, scale)
    directory = tkjit.export(*kernels, name=PACKAGE, output=tmp_path / PACKAGE, types=["float32"], **given)
    built = build(directory)
    shown = run(built, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory / "tests"))
    assert int(re.search(r"(\d+) passed", shown)[1]) >= 12


def test_a_call_runs_in_the_current_stream(gpu, tmp_path):
    major, minor = torch.cuda.get_device_capability(gpu)
    given = {"archs": [f"{major}{minor}{'a' if major >= 9 else ''}"], "languages": ["torch"], "types": ["float32"]}
    directory = tkjit.export("axpy", name=PACKAGE, output=tmp_path / PACKAGE, **given)
    program = """
import torch, layers
x, y = torch.randn(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
layers.axpy(x, y, 0.0)
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    layers.axpy(x, y, 2.0)
graph.replay()
torch.cuda.synchronize()
assert torch.equal(y, 2 * x)
"""
    run(build(directory), "-c", program)
