"""The tests' sources for CUB and wmma compile with CUDA's own headers, so the simulator has the same interfaces."""

from __future__ import annotations

import subprocess

import pytest
from support.simulator.compiled import SOURCES

pytestmark = [pytest.mark.nvcc, pytest.mark.slow]  # nvcc takes minutes for CUB


@pytest.mark.parametrize("source", ["cub_block", "cub_device", "wmma"])
def test_a_source_compiles_with_cudas_own_headers(loader, source, tmp_path):
    command = [loader.toolchain.nvcc.path, "-arch=sm_90a", "-std=c++17", "-c", SOURCES / f"{source}.cu"]
    done = subprocess.run([*command, "-o", tmp_path / "object.o"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
