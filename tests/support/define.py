"""Kernels of names that no other test has, from a source and a signature."""

import itertools

import torch

import tkjit

names = itertools.count()


def floats(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def define(source: str, signature: str, **options):
    """A kernel of a name and a source that no other test has."""
    name = f"feature_{next(names)}"
    scope = dict(vars(tkjit))
    exec(f"def {name}{signature}: ...", scope)
    return tkjit.kernel(source, **options)(scope[name])
