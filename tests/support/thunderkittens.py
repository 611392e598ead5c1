"""ThunderKittens' kernels, and the calls that verify them, for tests and benchmarks."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

import tkjit
from tkjit import registry
from tkjit.verify.call import Planned, planned

DIRECTORY = registry.bundled_directory() / "thunderkittens"
KERNELS = sorted(registry.definitions(DIRECTORY))
# 32 experts of 7168 x 2048 take 940 MB, which all devices share; only `make thunderkittens` verifies these kernels
TOO_LARGE = ("tk_moe_dispatch_gemm", "tk_moe_dispatch_gemm_epilogue")
CALLED = [name for name in KERNELS if name not in TOO_LARGE]


def arch_of(spec: tkjit.Spec) -> str:
    """Return the architecture for which a spec's source is written."""
    return spec.sources[0][0] or "90a"


@cache
def calls(kernel: str) -> tuple[Planned, ...]:
    """Return the calls that verify a kernel."""
    return tuple(planned(tkjit.find(kernel), (), {}, 0))


def arguments(call: Planned) -> dict[str, Any]:
    """Return a call's arguments, without the outputs that its case also contains."""
    outputs = {f.name for f in call.spec.tensors if f.is_allocated}
    return {name: value for name, value in call.case.arguments.items() if name not in outputs}


def first(kernel: str, **variant: Any) -> dict[str, Any]:
    """Return the arguments of a variant's first call."""
    fitting = (call for call in calls(kernel) if variant.items() <= dict(call.variant.values).items())
    return arguments(next(fitting))


def expected(kernel: str, given: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """Return the reference's results, without changing the arguments."""
    own = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in given.items()}
    returned = tkjit.find(kernel).reference(**own)
    return returned if isinstance(returned, tuple) else (returned,)
