"""Builds extensions, and imports them."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from tkjit.cache import Entry
from tkjit.config import Settings
from tkjit.errors import ArgumentError, CompileError, TkjitWarning, ToolchainError
from tkjit.extensions.fallback import lacking_in
from tkjit.extensions.functions import HostFunction, read_functions
from tkjit.extensions.modules import defines_module, with_module
from tkjit.extensions.plans import FunctionsPlan, LinkPlan, ObjectPlan
from tkjit.extensions.sources import Extension
from tkjit.loader import Loader, loader_for
from tkjit.loader.modules import ModulePlan


def build(extension: Extension, *, is_python_module: bool = True) -> Path:
    """The shared object of an extension. What the stand-ins for torch's headers lack is compiled with torch's own.

    Raises
    ------
    ArgumentError
        If it is to be a module, and its sources have neither one nor functions that take tensors.
    CompileError
        If it compiles with neither: the error of torch's headers.
    ToolchainError
        If its kernels would run in the simulator, for which torch's headers are not.
    """
    loader = loader_for(Settings.from_environment())
    needs_module = is_python_module and not defines_module(extension.own_sources)
    real = replace(extension, has_stand_ins=False)
    for headers in (extension,) if extension.is_simulated else (extension, real):
        if (found := _find(loader, headers, needs_module)) is not None:
            return found
    try:
        return _build(loader, extension, needs_module)
    except CompileError as error:
        if not (lacking := lacking_in(error.log)):
            raise
        if extension.is_simulated:
            raise ToolchainError(
                f"{extension.name} cannot run on the CPU: it needs {lacking} of torch's own headers, with which sources"
                f" are for GPUs alone; give one: TORCH_CUDA_ARCH_LIST=9.0a\n{error}"
            ) from None
        warnings.warn(
            f"{extension.name} is compiled with torch's own headers, which takes minutes: tkjit's lack {lacking}",
            TkjitWarning,
            stacklevel=4,
        )
        return _build(loader, real, needs_module)


def build_with_stand_ins(extension: Extension) -> Path:
    """The shared object of an extension that needs no header of torch's own but those of its stable C++ API.

    Raises
    ------
    CompileError
    """
    loader = loader_for(Settings.from_environment())
    return _build(loader, extension, not defines_module(extension.own_sources))


def functions_of_extension(extension: Extension) -> list[HostFunction]:
    """The functions of an extension's sources that a module can have.

    Raises
    ------
    CompileError
        If a source cannot be preprocessed.
    """
    loader = loader_for(Settings.from_environment())
    plans = _functions_plans(loader, extension)
    return [made for plan in plans for made in read_functions(loader.find_or_build(plan).shared_object)]


def load_extension(
    extension: Extension, build_directory: str | Path | None = None, *, is_python_module: bool = True
) -> ModuleType | str:
    """Build an extension, and import it, or load it for what it registers."""
    path = build(extension, is_python_module=is_python_module)
    if build_directory is not None:
        shutil.copy2(path, Path(build_directory) / f"{extension.name}.so")
    import torch

    if is_python_module:
        loaded: ModuleType | str = ModulePlan.import_module(extension.name, path)
    else:
        torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
        loaded = str(path)
    if extension.is_simulated:
        loader_for(Settings.from_environment()).connect_module(path)
    return loaded


def _find(loader: Loader, extension: Extension, needs_module: bool) -> Path | None:
    """The shared object, if all of it is in the cache."""
    if needs_module:
        listed = [loader.find(plan) for plan in _functions_plans(loader, extension)]
        if None in listed:
            return None
        extension = with_module(extension, [read_functions(entry.shared_object) for entry in listed if entry])
    objects = []
    for source in extension.sources:
        entry = loader.find(ObjectPlan(loader.env, extension, source))
        if entry is None:
            return None
        objects.append(entry)
    found = loader.find(LinkPlan(loader.env, extension, objects))
    return found.shared_object if found is not None else None


def _build(loader: Loader, extension: Extension, needs_module: bool) -> Path:
    if needs_module:
        plans = _functions_plans(loader, extension)
        functions = [read_functions(loader.find_or_build(plan).shared_object) for plan in plans]
        if not any(functions):
            _build_objects(loader, extension)  # a mistake in a source may be the reason
            raise ArgumentError(
                f"cpp_extension: {extension.name} has no PYBIND11_MODULE, and no function of its sources takes or"
                " returns a tensor; templates, members and overloaded functions do not count"
            )
        extension = with_module(extension, functions)
    objects = _build_objects(loader, extension)
    return loader.find_or_build(LinkPlan(loader.env, extension, objects)).shared_object


def _build_objects(loader: Loader, extension: Extension) -> list[Entry]:
    return [loader.find_or_build(ObjectPlan(loader.env, extension, source)) for source in extension.sources]


def _functions_plans(loader: Loader, extension: Extension) -> list[FunctionsPlan]:
    return [FunctionsPlan(loader.env, extension, source) for source in extension.own_sources]
