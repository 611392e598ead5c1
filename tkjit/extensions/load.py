"""Builds and imports extensions."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from tkjit.cache import Entry
from tkjit.config import Settings
from tkjit.errors import ArgumentError, CompileError, TkjitWarning, ToolchainError
from tkjit.extensions.build_objects import find_or_build_all
from tkjit.extensions.by_device import take_each_device
from tkjit.extensions.fallback import lacking_in
from tkjit.extensions.functions import HostFunction, read_functions
from tkjit.extensions.modules import defines_module, with_module
from tkjit.extensions.plans import LACKING, FunctionsPlan, LinkPlan, ObjectPlan, PreprocessedPlan
from tkjit.extensions.record import Loaded, record_extension
from tkjit.extensions.registrations import check_registrations, note_registrations
from tkjit.extensions.sources import CPU, Extension
from tkjit.loader import Loader, Plan, loader_for
from tkjit.loader.modules import ModulePlan
from tkjit.torch_headers import needed


def build(extension: Extension, *, is_python_module: bool = True) -> Path:
    """Return an extension's shared object, compiled with torch's own headers if tkjit's stand-ins lack a name.

    Raises
    ------
    ArgumentError
        If it should be a module, but its sources have neither a module nor a function that takes or returns tensors.
    CompileError
        If it does not compile. If torch's own headers were tried as well, the error comes from that second attempt.
    ToolchainError
        If it needs torch's own headers, and its kernels would run in the simulator, which does not support them.
    """
    return _entries(extension, is_python_module=is_python_module)[-1].shared_object


def _entries(extension: Extension, *, is_python_module: bool) -> list[Entry]:
    loader = loader_for(Settings.from_environment())
    loaded = Loaded(extension, is_python_module)
    if loader.settings.record is not None:
        record_extension(loader.settings.record, loaded)
    return entries_of(loader, loaded)


def entries_of(loader: Loader, loaded: Loaded) -> list[Entry]:
    """Return all cache entries of an extension, the module itself last, and build the missing ones.

    Raises
    ------
    ArgumentError, CompileError, ToolchainError
        In the same cases as ``build``.
    """
    if (found := _find_with_any_headers(loader, loaded)) is not None:
        return found
    extension = loaded.extension
    if lacking := _lacking(loader, extension):
        if needed.torch_has(lacking):
            return _build_with_torch(loader, loaded, lacking)
        try:
            return _build(loader, loaded)
        except CompileError as error:
            if lacking not in error.log:
                raise
            raise ArgumentError(
                f"{extension.name} uses {lacking}, which the installed torch does not have\n{error}"
            ) from None
    try:
        return _build(loader, loaded)
    except CompileError as error:
        if not (lacking := lacking_in(error.log)) or not extension.has_stand_ins:
            raise
        return _build_with_torch(loader, loaded, lacking, error)


def _lacking(loader: Loader, extension: Extension) -> str:
    """Return the first header or name of torch that the stand-ins lack; empty if none is known to be missing.

    The function scans the raw sources first. If a name looks missing, it also preprocesses the sources, because the
    name may be in an inactive branch of an ``#if``.
    """
    if not extension.has_stand_ins:
        return ""
    texts = [needed.text_of(source.content, extension.directories_of(source)) for source in extension.own_sources]
    if not needed.first_lacking(texts):
        return ""
    plans = [PreprocessedPlan(loader.env, extension, source) for source in extension.own_sources]
    try:
        entries = find_or_build_all(loader, plans)
    except CompileError as error:
        if header := lacking_in(error.log):
            return header
        raise
    texts = [
        needed.text_of_preprocessed(
            entry.shared_object.read_text(encoding="utf-8", errors="replace"), plan.own_directories
        )
        for entry, plan in zip(entries, plans, strict=True)
    ]
    return needed.first_lacking(texts)


def _build_with_torch(loader: Loader, loaded: Loaded, lacking: str, error: CompileError | None = None) -> list[Entry]:
    extension = loaded.extension
    import torch

    needs = f"{_first_use(extension, lacking)} needs {lacking} from torch's own headers"
    log = f"\n{error}" if error else ""
    has_cuda = torch.version.cuda is not None
    if extension.is_simulated:
        remedy = "set a GPU architecture" if has_cuda else "install a CUDA build of torch, and set a GPU architecture"
        raise ToolchainError(
            f"{extension.name} cannot run on the CPU: {needs}, which the simulator does not support; {remedy}:"
            f" TORCH_CUDA_ARCH_LIST=9.0a{log}"
        ) from None
    if extension.target is not None and not has_cuda:
        raise ToolchainError(
            f"{extension.name}: {needs}, with which CUDA sources need a CUDA build of torch; this build is for the"
            f" CPU{log}"
        ) from None
    warnings.warn(
        f"{extension.name} is compiled with torch's own headers, which takes minutes: tkjit's lack {lacking}, which"
        f" {_first_use(extension, lacking)} uses",
        TkjitWarning,
        stacklevel=6,
    )
    real = replace(extension, has_stand_ins=False, lacking=lacking)
    return _build(loader, replace(loaded, extension=real))


def _first_use(extension: Extension, name: str) -> str:
    """Return the file and line where an extension first uses a name of torch."""
    sources = [
        (source.path or Path(source.name), source.content, extension.directories_of(source))
        for source in extension.own_sources
    ]
    return needed.first_use(name, sources)


def plans_of(loader: Loader, loaded: Loaded) -> list[Plan]:
    """Return an extension's plans, except those that depend on entries that are not built yet."""
    rounds: list[list[Plan]] = []
    for candidate in _headers_of(loaded.extension):
        with_headers = replace(loaded, extension=candidate)
        plans: list[Plan] = [*_functions_plans(loader, with_headers)]
        rounds.append(plans)
        listed = _all_of(map(loader.find, plans))
        if listed is None:
            continue
        extension = _with_functions(with_headers.extension, listed)
        objects = [ObjectPlan(loader.env, extension, source) for source in extension.sources]
        plans += objects
        if (found := _all_of(map(loader.find, objects))) is not None:
            return [*plans, LinkPlan(loader.env, extension, found)]
    return rounds[0]  # the plans that a build would start with


def _headers_of(extension: Extension) -> list[Extension]:
    """Return the extension with stand-ins for torch's headers and, if they may be used, with torch's own headers."""
    real = replace(extension, has_stand_ins=False)
    return [extension] if extension.is_simulated or not extension.has_stand_ins else [extension, real]


def build_with_stand_ins(extension: Extension) -> Path:
    """Return the shared object of an extension that uses none of torch's own headers except its stable C++ API.

    Raises
    ------
    CompileError
        If it does not compile.
    """
    loader = loader_for(Settings.from_environment())
    return _build(loader, Loaded(extension))[-1].shared_object


def build_stable(extension: Extension) -> Path:
    """Return the shared object of an extension compiled only with the stand-ins.

    The shared object is a Python module only if the sources define one.

    Raises
    ------
    ArgumentError
        If a source needs a header or a name of torch that the stand-ins lack. The message gives the line.
    CompileError
        If it does not compile.
    """
    loader = loader_for(Settings.from_environment())
    if lacking := _lacking(loader, extension):
        raise ArgumentError(
            f"{_first_use(extension, lacking)}: {lacking} is not in torch's stable ABI, so a wheel for every version of"
            " torch cannot use it; the documentation lists what tkjit supports: Load an extension written for torch"
        )
    return _build(loader, Loaded(extension, is_python_module=False))[-1].shared_object


def functions_of_extension(extension: Extension) -> list[HostFunction]:
    """Return the functions in an extension's sources that a module can expose.

    Raises
    ------
    CompileError
        If a source cannot be preprocessed.
    """
    loader = loader_for(Settings.from_environment())
    plans = [FunctionsPlan(loader.env, extension, source) for source in extension.own_sources]
    return [found for entry in find_or_build_all(loader, plans) for found in read_functions(entry.shared_object)]


def _warn_without_gpu(extension: Extension) -> None:
    """Warn if an extension was compiled for a GPU on a machine without one, as on a builder of wheels."""
    import torch

    if extension.target is not None and not extension.is_simulated and not torch.cuda.is_available():
        warnings.warn(
            f"{extension.name} is compiled for {extension.target.name}, because TORCH_CUDA_ARCH_LIST or a flag asks for"
            " it, but this machine has no GPU that torch can use; without the variable, its kernels run on the CPU",
            TkjitWarning,
            stacklevel=4,
        )


def load_extension(
    extension: Extension,
    build_directory: str | Path | None = None,
    *,
    is_python_module: bool = True,
    defines_functions: bool = False,
    verbose: bool = False,
) -> ModuleType | str:
    """Build an extension and import it, or load it for the operators that it registers.

    Parameters
    ----------
    defines_functions : bool
        Whether the sources contain a module that tkjit wrote from the caller's list of functions.
    verbose : bool
        Whether to print each compiler's command and output.

    Raises
    ------
    ArgumentError, CompileError, ToolchainError
        In the same cases as ``build``. Also ArgumentError, if the extension's operators cannot be registered, for
        example because this process already has them.
    """
    *objects, module_entry = _entries(extension, is_python_module=is_python_module)
    if verbose:
        from tkjit.compile.compiler import LOG

        for entry in (*objects, module_entry):
            print((entry.directory / LOG).read_text(errors="replace"), end="")
    path = module_entry.shared_object
    _warn_without_gpu(extension)
    registered = check_registrations(extension, path)
    if build_directory is not None:
        shutil.copy2(path, Path(build_directory) / f"{extension.name}.so")
    import torch

    if is_python_module:
        module = ModulePlan.import_module(extension.name, path)
        loaded: ModuleType | str = module
        is_made = defines_functions or not defines_module(extension.own_sources)
        if is_made and not any(LACKING in entry.manifest for entry in objects):
            take_each_device(module, extension, lambda: _module_of(replace(extension, archs=(CPU,))))
    else:
        torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
        loaded = str(path)
    note_registrations(extension, path, registered)
    if extension.is_simulated:
        loader_for(Settings.from_environment()).connect_module(path)
    return loaded


def fingerprints_of(extension: Extension) -> list[bytes]:
    """Return the fingerprints of all files that an extension's cache entries depend on; empty if it is not cached."""
    loader = loader_for(Settings.from_environment())
    return [entry.fingerprint for entry in _find_with_any_headers(loader, Loaded(extension)) or ()]


def _module_of(extension: Extension) -> ModuleType:
    loaded = load_extension(extension)
    assert isinstance(loaded, ModuleType)
    return loaded


def _find_with_any_headers(loader: Loader, loaded: Loaded) -> list[Entry] | None:
    for candidate in _headers_of(loaded.extension):
        if (found := _find(loader, replace(loaded, extension=candidate))) is not None:
            return found
    return None


def _find(loader: Loader, loaded: Loaded) -> list[Entry] | None:
    """Return the cache entries of an extension, or None if one is missing."""
    listed = _all_of(map(loader.find, _functions_plans(loader, loaded)))
    if listed is None:
        return None
    extension = _with_functions(loaded.extension, listed)
    objects = _all_of(loader.find(ObjectPlan(loader.env, extension, source)) for source in extension.sources)
    if objects is None:
        return None
    module = loader.find(LinkPlan(loader.env, extension, objects))
    return [*listed, *objects, module] if module is not None else None


def _build(loader: Loader, loaded: Loaded) -> list[Entry]:
    listed = find_or_build_all(loader, _functions_plans(loader, loaded))
    try:
        extension = _with_functions(loaded.extension, listed)
    except ArgumentError:
        _build_objects(loader, loaded.extension)  # raises the CompileError if a mistake in a source is the reason
        raise
    objects = _build_objects(loader, extension)
    return [*listed, *objects, loader.find_or_build(LinkPlan(loader.env, extension, objects))]


def _all_of(entries: Iterable[Entry | None]) -> list[Entry] | None:
    """Return the plans' entries, or None if one is missing. Later entries are then not looked up."""
    found = []
    for entry in entries:
        if entry is None:
            return None
        found.append(entry)
    return found


def _with_functions(extension: Extension, listed: Sequence[Entry]) -> Extension:
    """Add a module that exposes the functions found in the sources, if the extension needs one."""
    if not listed:
        return extension
    functions = [read_functions(entry.shared_object) for entry in listed]
    if not any(functions):
        raise ArgumentError(
            f"cpp_extension: {extension.name} has no PYBIND11_MODULE, and no function of its sources takes or"
            " returns a tensor; templates, members and overloaded functions do not count"
        )
    return with_module(extension, functions)


def _build_objects(loader: Loader, extension: Extension) -> list[Entry]:
    return find_or_build_all(loader, [ObjectPlan(loader.env, extension, source) for source in extension.sources])


def _functions_plans(loader: Loader, loaded: Loaded) -> list[FunctionsPlan]:
    """Return plans that find the functions of an extension that should be a module but does not define one."""
    extension = loaded.extension
    if not loaded.is_python_module or defines_module(extension.own_sources):
        return []
    return [FunctionsPlan(loader.env, extension, source) for source in extension.own_sources]
