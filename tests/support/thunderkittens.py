"""ThunderKittens' kernels and their verification's calls, for tests and benchmarks."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

import tkjit
from tkjit import registry
from tkjit.verify.call import Planned, planned

DIRECTORY = registry.bundled_directory() / "thunderkittens"
# without those that are the old name of another
KERNELS = [name for name in sorted(registry.definitions(DIRECTORY)) if not tkjit.find(name).specs[0].deprecated]
# 32 experts of 7168 x 2048 are 940 MB, which all devices share: make thunderkittens verifies it, and no test
TOO_LARGE = ("tk_moe_dispatch_gemm", "tk_moe_dispatch_gemm_epilogue")
CALLED = [name for name in KERNELS if name not in TOO_LARGE]


def arch_of(spec: tkjit.Spec) -> str:
    """The architecture that a spec's source is written for."""
    return spec.sources[0][0] or "90a"


@cache
def calls(kernel: str) -> tuple[Planned, ...]:
    """The calls that verify a kernel."""
    return tuple(planned(tkjit.find(kernel), (), {}, 0))


def arguments(call: Planned) -> dict[str, Any]:
    """What a call gives: no outputs, which its case has too."""
    made = {f.name for f in call.spec.tensors if f.is_allocated}
    return {name: value for name, value in call.case.arguments.items() if name not in made}


def first(kernel: str, **variant: Any) -> dict[str, Any]:
    """The arguments of the first call of a variant."""
    fitting = (call for call in calls(kernel) if variant.items() <= dict(call.variant.values).items())
    return arguments(next(fitting))


def expected(kernel: str, given: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """What the reference returns; the arguments stay as they are."""
    own = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in given.items()}
    returned = tkjit.find(kernel).reference(**own)
    return returned if isinstance(returned, tuple) else (returned,)
