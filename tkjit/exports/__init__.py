"""Exports kernels to programs without tkjit: as libraries for C, C++, Go and Rust, or as PyTorch extensions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tkjit.kernel_objects import Kernel

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
        The library's name, which is the prefix of its functions: lower-case letters, digits and ``_``.
    output : path
        The directory to write. An earlier export there is replaced; any other content is an error.
    languages : iterable of str
        Any of ``"c"``, which is always included, ``"cpp"``, ``"go"`` and ``"rust"``; or only ``"torch"``.
    archs : iterable of str
        The targets to compile for: ``"cpu"``, ``"90a"``, ``"sm_100a"``.
    types : iterable of str
        Export only the variants of these dtypes; all variants if empty.
    version : str
        The library's version. Programs stay compatible as long as the first number is the same.
    package : str
        The name of the Go package and the Rust crate; the library's name if empty.
    binding : {"stable", "pybind11"}
        For a torch extension: operators on PyTorch's stable ABI, or functions of a pybind11 module.

    Returns
    -------
    Path
        The directory.

    Raises
    ------
    SpecError
        If a kernel is unknown, C has no type for a parameter, or a name is not allowed.
    ToolchainError
        If a compiler is missing, or a kernel has no source for an architecture.
    CompileError
        If a kernel does not compile.
    CacheError
        If the directory contains something else, or cannot be written.
    """
    from dataclasses import replace

    from tkjit.config import Settings
    from tkjit.exports.write import check_languages, check_torch_options, plan_export, write_export
    from tkjit.loader import loader_for

    languages = check_languages(languages)
    check_torch_options(languages, binding, package)
    # an export is an explicit request to compile, so it ignores TKJIT_JIT=0
    loader = loader_for(replace(Settings.from_environment(), jit=True))
    if languages == ("torch",):
        from tkjit.exports.torch_package import with_backwards, write_torch_package

        planned = plan_export(loader, with_backwards(kernels), name, archs, types, version)
        return write_torch_package(loader, planned, Path(output), binding)
    planned = plan_export(loader, kernels, name, archs, types, version, package)
    return write_export(loader, planned, Path(output), languages)
