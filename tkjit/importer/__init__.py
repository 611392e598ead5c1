"""Writes a spec file from a CUDA source, with libclang."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tkjit.importer.describe import Place, Written, spec_file
from tkjit.importer.parse import Wanted, kernels_of

__all__ = ["Place", "Wanted", "Written", "import_source"]


def import_source(
    path: Path, wanted: Wanted, arguments: Sequence[str], place: Place, cxx: Path | None = None
) -> Written:
    """Write a spec file's text from a CUDA source.

    Parameters
    ----------
    arguments : sequence of str
        The arguments for clang, from ``tkjit.importer.clang.arguments_for``.
    cxx : Path, optional
        A C++ compiler, whose preprocessor expands macros. If None, launches inside macros are not found.

    Raises
    ------
    SpecError
        If no kernel can be described.
    ToolchainError
        If libclang is missing.
    """
    return spec_file(kernels_of(path, arguments, wanted, cxx), place)
