"""ThunderKittens' kernels on a GPU against their references: random inputs, and the error of the worst row."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from tkjit.config import Settings
from tkjit.errors import ToolchainError
from tkjit.headers import located
from tkjit.loader import loader_for

DIRECTORY = Path(__file__).parents[2] / "kernel_sources" / "thunderkittens"
CASES = runpy.run_path(str(DIRECTORY / "_cases.py"))["CASES"]
# as it is before the tests have a cache of their own: what `headers add` installs lies in the user's
SETTINGS = Settings.from_environment()


@pytest.fixture
def hopper(gpu):
    """The device; another than an H100's kind cannot run what is compiled for sm_90a."""
    if torch.cuda.get_device_capability(gpu) != (9, 0):
        pytest.skip(f"written for compute capability 9.0 (H100, H200); {torch.cuda.get_device_name(gpu)} has another")
    return gpu


@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_its_reference(hopper, case, monkeypatch):
    try:
        libraries = located(case.spec, SETTINGS).headers
    except ToolchainError as error:
        pytest.skip(str(error))
    for library in libraries:
        if library.root:
            monkeypatch.setenv(library.variable, str(library.root))
        elif not (loader_for(SETTINGS).toolchain.cuda_root / "include" / library.proof).is_file():
            pytest.skip(f"this CUDA toolkit has no {library.proof}: python -m tkjit headers add {library.name}")
    errors = case.errors(hopper)
    assert errors and all(error <= case.tolerance for error in errors), errors
