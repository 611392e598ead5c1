"""ThunderKittens' kernels on a GPU, compared with their references on the calls of ``verify``."""

from __future__ import annotations

import pytest
import torch
from support.thunderkittens import CALLED, arch_of, calls

import tkjit
from tkjit.config import Settings
from tkjit.errors import ToolchainError
from tkjit.headers import locate
from tkjit.loader import loader_for
from tkjit.verify.call import call_kernel

pytestmark = pytest.mark.gpu
CAPABILITIES = {"90a": (9, 0), "100a": (10, 0), "103a": (10, 3)}
MADE_AS = {"90a": "H100, H200", "100a": "B200", "103a": "B300"}
# kernels whose source is wrong: tk_rotary's uses the coordinate of a row where that of a tile is meant, and an H100
# and the simulator give the same wrong numbers
WRONG = ("tk_rotary",)
# read before the tests get their own cache, because `headers add` installs into the user's cache
SETTINGS = Settings.from_environment()


@pytest.mark.parametrize("kernel", [name for name in CALLED if not tkjit.find(name).specs[0].is_parallel])
def test_agrees_with_its_reference(gpu, kernel, monkeypatch):
    (spec, *_) = tkjit.find(kernel).specs
    arch = arch_of(spec)
    if torch.cuda.get_device_capability(gpu) != CAPABILITIES[arch]:
        name = torch.cuda.get_device_name(gpu)
        pytest.skip(f"written for sm_{arch} ({MADE_AS[arch]}); {name} cannot run that code")
    try:
        libraries = locate(spec, SETTINGS).headers
    except ToolchainError as error:
        pytest.skip(str(error))
    for library in libraries:
        if library.root:
            monkeypatch.setenv(library.variable, str(library.root))
        elif not (loader_for(SETTINGS).toolchain.cuda_root / "include" / library.proof).is_file():
            pytest.skip(f"this CUDA toolkit has no {library.proof}: python -m tkjit headers add {library.name}")
    loader = loader_for(Settings.from_environment())
    outcomes = [call_kernel(call, tkjit.find(kernel), loader, "cuda") for call in calls(kernel)]
    problems = [each.problems for each in outcomes if not each.is_right]
    assert outcomes and (bool(problems) == (kernel in WRONG)), problems
