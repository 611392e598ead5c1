"""Kernels for programs without tkjit: libraries for C, C++, Go and Rust, and extensions of PyTorch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tkjit.kernel import Kernel

__all__ = ["export"]


def export(
    *kernels: str | Kernel,
    name: str,
    output: str | os.PathLike[str],
    languages: Iterable[str] = ("c",),
    archs: Iterable[str] = ("cpu",),
    types: Iterable[str] = (),
    version: str = "1.0",
    package: str = "",
    binding: str = "stable",
) -> Path:
    """Export kernels as a library for programs without Python, or as the sources of a torch extension.

    Parameters
    ----------
    *kernels : str or Kernel
        Kernels, or their names.
    name : str
        The library's name, with which its functions begin: letters in lower case, digits and ``_``.
    output : path
        The directory to write. An export that is there is replaced; anything else is an error.
    languages : iterable of str
        Of ``"c"``, which is always there, ``"cpp"``, ``"go"`` and ``"rust"``; or ``"torch"`` alone.
    archs : iterable of str
        What it has code for: ``"cpu"``, ``"90a"``, ``"sm_100a"``.
    types : iterable of str
        Only variants of these dtypes; all if none is named.
    version : str
        The library's version: programs stay compatible while its first number is the same.
    package : str
        The name of the Go package and of the Rust crate; the library's if it is not given.
    binding : {"stable", "pybind11"}
        Of a torch extension: operators on PyTorch's stable ABI, or functions of a pybind11 module.

    Returns
    -------
    Path
        The directory.

    Raises
    ------
    SpecError
        If a kernel is unknown, C has no type for a parameter, or a name cannot be one.
    ToolchainError
        If a compiler is missing, or a kernel has no source for an architecture.
    CompileError
        If a kernel does not compile.
    CacheError
        If the directory holds something else, or cannot be written.
    """
    from dataclasses import replace

    from tkjit.config import Settings
    from tkjit.exports.write import check_languages, check_torch_options, plan_export, write_export
    from tkjit.loader import loader_for

    languages = check_languages(languages)
    check_torch_options(languages, binding, package)
    # who asks for a library means it, also where programs may not compile (TKJIT_JIT=0)
    loader = loader_for(replace(Settings.from_environment(), jit=True))
    if languages == ("torch",):
        from tkjit.exports.torch_package import with_backwards, write_torch_package

        made = plan_export(loader, with_backwards(kernels), name, archs, types, version)
        return write_torch_package(loader, made, Path(output), binding)
    made = plan_export(loader, kernels, name, archs, types, version, package)
    return write_export(loader, made, Path(output), languages)
