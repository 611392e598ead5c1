"""Finds kernels by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tkjit import packages, registry
from tkjit.config import Settings
from tkjit.errors import SpecError
from tkjit.kernel_objects.loading import Kernel, kernel_of_file
from tkjit.loader.warm_start import Reference


def find(name: str) -> Kernel:
    """Find a kernel by name, without loading it.

    Raises
    ------
    SpecError
        If there is no such kernel; the message suggests similar names.
    """
    return kernel_of_file(*registry.find_file(name, Settings.from_environment()))


def complete(kernel: str | Kernel) -> Kernel:
    """Return a kernel with all that its spec file defines: a kernel from a warm record has no examples and no peers."""
    if isinstance(kernel, str):
        return find(kernel)
    reference = kernel.specs[0].reference
    return (
        kernel_of_file(reference.path, reference.name, reference.module) if isinstance(reference, Reference) else kernel
    )


def find_used(name: str, module: str) -> Kernel:
    """Find a kernel that another process used, either in a spec file or in the module that defined it.

    Raises
    ------
    SpecError
        If it cannot be found in this process.
    """
    if (known := registry.full_name(name, module)) is not None:
        return find(known)
    if module == "__main__":
        raise SpecError(f"{name} was defined in a script or a notebook; put it in a module or in TKJIT_KERNEL_PATH")
    from importlib import import_module

    try:
        found = getattr(import_module(module), name, None)
    except ImportError as error:
        raise SpecError(
            f"{name} was defined in {module}, which cannot be imported: {error}; set PYTHONPATH to its directory"
        ) from None
    if not isinstance(found, Kernel):
        raise SpecError(f"{module} defines no kernel {name}")
    return found


def kernels() -> tuple[str, ...]:
    """Return the names of all kernels that ``load`` can find; those of installed packages are ``package.name``."""
    return tuple(sorted(registry.kernel_files(Settings.from_environment())))


def kernels_named(names: Sequence[str]) -> tuple[str, ...]:
    """Expand the names given to a command: replace each package and each spec file with the names of its kernels.

    Raises
    ------
    SpecError
        If a name is neither a kernel nor a package nor a file.
    """
    found: dict[str, None] = {}
    for name in names:
        if name.endswith(".py") and Path(name).is_file():
            found.update(dict.fromkeys(registry.names_of_file(Path(name))))
        elif name in packages.packages() and name not in (known := kernels()):
            packages.package(name)  # raises if the package is broken
            found.update(dict.fromkeys(kernel_name for kernel_name in known if kernel_name.rpartition(".")[0] == name))
        else:
            registry.find_file(name, Settings.from_environment())
            found[name] = None
    return tuple(found)
