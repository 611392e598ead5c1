"""Defines kernels with unique names from a source and a signature."""

from __future__ import annotations

import itertools
from pathlib import Path

import torch

import tkjit

names = itertools.count()


def floats(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def define(source: Path | str | None, signature: str, **options) -> tkjit.Kernel:
    """Define a kernel with a unique name."""
    name = f"feature_{next(names)}"
    scope = {name: getattr(tkjit, name) for name in tkjit.__all__}
    exec(f"def {name}{signature}: ...", scope)
    return tkjit.kernel(source, **options)(scope[name])


def host_function(source: Path | str, entry: str, signature: str, **options) -> tkjit.Kernel:
    """Define a kernel that calls a host function of a source."""
    return define(source, signature, entry=entry, **{"args": True, "host": True, **options})
