"""A kernel of a library, with inputs and the exact results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import tkjit
from tkjit import HeaderLibrary

SOURCES = Path(__file__).parent / "sources"


class Result(NamedTuple):
    """An exact result, and the magnitudes to which errors are relative."""

    exact: Tensor
    scale: Tensor


class Case(NamedTuple):
    """A kernel, the architecture that the simulator imitates, and the libraries whose headers it includes."""

    name: str
    arch: str
    needs: Sequence[str]
    kernel: Callable[[Sequence[HeaderLibrary]], tkjit.Kernel]
    arguments: Callable[[], tuple[Tensor, ...]]
    results: Callable[..., tuple[Result, ...]]


def source(name: str, *lines: str, **macros: object) -> str:
    """Return a source after some lines and definitions of macros."""
    defined = [f"#define {macro} {value}" for macro, value in macros.items()]
    return "\n".join([*lines, *defined, (SOURCES / name).read_text()])


def host_function(
    text: str, entry: str, libraries: Sequence[HeaderLibrary], computed: dict[str, str], **options: Any
) -> Callable[[Callable[..., Any]], tkjit.Kernel]:
    """Return the decorator that makes a kernel of a source's host function, which gets some extents as integers."""
    headers = list(libraries)
    return tkjit.kernel(
        text, entry=entry, host=True, args=True, headers=headers, include_dirs=[SOURCES], computed=computed, **options
    )


def product(a: Tensor, b: Tensor) -> Result:
    """A (..., M, K) times B (..., N, K) transposed. Errors are relative to the sum of the terms' magnitudes."""
    a, b = a.double(), b.double()
    return Result(a @ b.mT, a.abs() @ b.abs().mT)


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape).to(dtype)
