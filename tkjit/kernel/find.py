"""Finds kernels by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tkjit import packages, registry
from tkjit.config import Settings
from tkjit.errors import SpecError
from tkjit.kernel.kernel import Kernel, kernel_of_file


def find(name: str) -> Kernel:
    """The kernel of that name, not loaded.

    Raises
    ------
    SpecError
        If there is none; with near names.
    """
    return kernel_of_file(*registry.find_file(name, Settings.from_environment()))


def find_used(name: str, module: str) -> Kernel:
    """The kernel that another process used: of a spec file, or of the module that defined it there.

    Raises
    ------
    SpecError
        If it is not to be found here.
    """
    if (known := registry.full_name(name, module)) is not None:
        return find(known)
    if module == "__main__":
        raise SpecError(f"{name} was defined in a script or a notebook; put it in a module, or in TKJIT_KERNEL_PATH")
    from importlib import import_module

    try:
        found = getattr(import_module(module), name, None)
    except ImportError as error:
        raise SpecError(
            f"{name} was defined in {module}, which cannot be imported: {error}; PYTHONPATH says where modules lie"
        ) from None
    if not isinstance(found, Kernel):
        raise SpecError(f"{module} defines no kernel {name}")
    return found


def kernels() -> tuple[str, ...]:
    """The names of all kernels that ``load`` finds; those of an installed package are ``package.name``."""
    return tuple(sorted(registry.kernel_files(Settings.from_environment())))


def kernels_named(names: Sequence[str]) -> tuple[str, ...]:
    """The kernels that a command's names mean: that of a package, or of a file, stands for all of its kernels.

    Raises
    ------
    SpecError
        If a name is no kernel's and no package's.
    """
    found: dict[str, None] = {}
    for name in names:
        if name.endswith(".py") and Path(name).is_file():
            found.update(dict.fromkeys(registry.names_of_file(Path(name))))
        elif name in packages.packages() and name not in (known := kernels()):
            packages.package(name)  # it may be broken
            found.update(dict.fromkeys(one for one in known if one.rpartition(".")[0] == name))
        else:
            registry.find_file(name, Settings.from_environment())
            found[name] = None
    return tuple(found)
