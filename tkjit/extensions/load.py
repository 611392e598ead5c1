"""Builds extensions, and imports them."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from tkjit.cache import Entry
from tkjit.config import Settings
from tkjit.errors import CompileError, TkjitWarning
from tkjit.extensions.fallback import lacking_in
from tkjit.extensions.plans import LinkPlan, ObjectPlan
from tkjit.extensions.sources import Extension
from tkjit.loader import Loader, loader_for
from tkjit.loader.modules import ModulePlan


def build(extension: Extension) -> Path:
    """The shared object of an extension. What the stand-ins for torch's headers lack is compiled with torch's own.

    Raises
    ------
    CompileError
        If it compiles with neither: the error of torch's headers.
    """
    loader = loader_for(Settings.from_environment())
    real = replace(extension, has_stand_ins=False)
    if (found := _find(loader, extension) or _find(loader, real)) is not None:
        return found
    try:
        return _build(loader, extension)
    except CompileError as error:
        if not (lacking := lacking_in(error.log)):
            raise
        warnings.warn(
            f"{extension.name} is compiled with torch's own headers, which takes minutes: tkjit's lack {lacking}",
            TkjitWarning,
            stacklevel=4,
        )
        return _build(loader, real)


def build_with_stand_ins(extension: Extension) -> Path:
    """The shared object of an extension that needs no header of torch's own.

    Raises
    ------
    CompileError
    """
    return _build(loader_for(Settings.from_environment()), extension)


def load_extension(
    extension: Extension, build_directory: str | Path | None, *, is_python_module: bool
) -> ModuleType | str:
    """Build an extension, and import it, or load it for what it registers."""
    path = build(extension)
    if build_directory is not None:
        shutil.copy2(path, Path(build_directory) / f"{extension.name}.so")
    import torch

    if is_python_module:
        return ModulePlan.import_module(extension.name, path)
    torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
    return str(path)


def _find(loader: Loader, extension: Extension) -> Path | None:
    """The shared object, if all of it is in the cache."""
    objects = []
    for source in extension.sources:
        entry = loader.find(ObjectPlan(loader.env, extension, source))
        if entry is None:
            return None
        objects.append(entry)
    found = loader.find(LinkPlan(loader.env, extension, objects))
    return found.shared_object if found is not None else None


def _build(loader: Loader, extension: Extension) -> Path:
    objects = list(_objects(loader, extension))
    return loader.find_or_build(LinkPlan(loader.env, extension, objects)).shared_object


def _objects(loader: Loader, extension: Extension) -> Iterable[Entry]:
    for source in extension.sources:
        yield loader.find_or_build(ObjectPlan(loader.env, extension, source))
