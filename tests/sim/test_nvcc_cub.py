"""The sources of the tests of CUB's stand-ins compile for Hopper with CUB itself, so that the interfaces are the same."""

from __future__ import annotations

import subprocess

import pytest
from support.simulator.compiled import SOURCES

pytestmark = pytest.mark.nvcc


@pytest.mark.parametrize("source", ["cub_block", "cub_device"])
def test_compiles_with_cub(loader, source, tmp_path):
    command = [loader.toolchain.nvcc.path, "-arch=sm_90a", "-std=c++17", "-c", SOURCES / f"{source}.cu"]
    done = subprocess.run([*command, "-o", tmp_path / "object.o"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
