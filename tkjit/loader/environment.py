"""What the plans of a process have in common: settings, tools, and what they add to every recipe."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import MappingProxyType

from tkjit.cache import Recipe
from tkjit.compile import flags
from tkjit.compile.targets import Target
from tkjit.compile.toolchain import Toolchain
from tkjit.config import Settings

# the Python and platform that a module is for, cpython-311-x86_64-linux-gnu; sysconfig takes a millisecond to say it
ABI = EXTENSION_SUFFIXES[0].removesuffix(".so").strip(".")
# headers of the machine's own, in which nothing is looked for unless it is there
_LOCAL_HEADERS = Path("/usr/local/include")
# settings that decide nothing of a recipe, nor of where it is looked up
_INDIFFERENT = frozenset(["jit", "record", "cache_limit_bytes", "cache_shared", "kernel_path", "sync", "sim_trace"])


class Environment:
    """What recipes depend on besides specs and files.

    Parameters
    ----------
    failure_directory : callable
        Where a recipe's failed build stays.
    open_launcher : callable
        Loads a launcher's shared object and returns its address.
    simulator : callable
        The object that is linked with a launcher for a CPU, by its target and mode.
    """

    def __init__(
        self,
        settings: Settings,
        toolchain: Toolchain,
        failure_directory: Callable[[Recipe], Path],
        open_launcher: Callable[[Path], int],
        simulator: Callable[[Target, str], Path],
    ) -> None:
        self._settings = settings
        self.toolchain = toolchain
        self.failure_directory = failure_directory
        self.open_launcher = open_launcher
        self.simulator = simulator

    def warm_key(self, name: str, values: object) -> str:
        """A name for what is made from some values in this environment: their ``repr`` says all of them."""
        digest = hashlib.sha256(f"{self._text} {values!r}".encode())
        return f"{name}-{digest.hexdigest()[:16]}"

    def recipe(
        self,
        arch: str,
        name: str,
        parts: dict[str, str],
        target: Target | None = None,
        own: Mapping[str, Path] = MappingProxyType({}),
    ) -> Recipe:
        """A recipe, with what this environment adds to it.

        Parameters
        ----------
        own : mapping
            The kernel's own directories, by the names that keys use for them.
        """
        common, site_packages = self._environment
        directories = {"site-packages": site_packages, **self.toolchain.anchors(target), **own}
        return Recipe(
            arch,
            name,
            tuple(sorted({**parts, **common}.items())),
            tuple((anchor, str(path)) for anchor, path in directories.items()),
            self.toolchain.versions(target),
            ("tkjit", *own),
        )

    @property
    def for_debugger(self) -> bool:
        """Whether kernels for the CPU are compiled for a debugger."""
        return self._settings.sim_debug

    @property
    def checks_bounds(self) -> bool:
        """Whether kernels for the CPU compare each index of a global layout with its extents."""
        return self._settings.sim_bounds

    @property
    def header_path(self) -> tuple[Path, ...]:
        """Where compilers look for headers without being told to."""
        return (*self._settings.header_path, _LOCAL_HEADERS)

    @cached_property
    def _text(self) -> str:
        """All of it."""
        decisive = {name: value for name, value in vars(self._settings).items() if name not in _INDIFFERENT}
        return repr((decisive, self._environment, flags.PACKAGE))

    @cached_property
    def _environment(self) -> tuple[dict[str, str], Path]:
        """What every key holds, and where Python's packages lie."""
        import torch

        parts = {"python": ABI, "torch": str(torch.__version__), "environment": self._settings.compiler_environment}
        return parts, Path(torch.__file__).parents[1]


@cache
def rendering_files() -> list[str]:
    """The code that makes recipes of specs: what it says of one, it says until it is edited."""
    in_loader = (
        f"loader/{name}" for name in ("environment", "modules", "launchers", "simulator", "static_shared", "warm_start")
    )
    in_compile = (f"compile/{name}" for name in ("flags", "targets", "toolchain"))
    alone = ["registry", "cache/recipe", *in_compile, *in_loader]
    patterns = [*(f"{room}.py" for room in alone), "spec/*.py", "source/*.py", "render/*.py"]
    return sorted(str(path) for name in patterns for path in flags.PACKAGE.glob(name))
