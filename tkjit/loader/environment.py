"""The inputs that all recipes of a process share: settings, tools and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tkjit.cache import Entry, Recipe
from tkjit.compile import flags
from tkjit.compile.targets import Target
from tkjit.compile.toolchain import Toolchain
from tkjit.config import Settings
from tkjit.headers import forward_to_curand
from tkjit.system.files import sha256_of
from tkjit.system.fork_safe import cached_property

if TYPE_CHECKING:
    from tkjit.compile.nvrtc import Nvrtc
    from tkjit.loader.glue_flags import GlueFlags
    from tkjit.loader.plan import Plan

# the Python and platform of a module, cpython-311-x86_64-linux-gnu; sysconfig would take a millisecond to compute it
ABI = EXTENSION_SUFFIXES[0].removesuffix(".so").strip(".")
# The headers that are installed on this machine. The directory is skipped if it does not exist.
_LOCAL_HEADERS = Path("/usr/local/include")
# The settings that affect neither a recipe nor the way it is looked up.
_SETTINGS_OUTSIDE_KEYS = frozenset(
    [
        "jit",
        "record",
        "tune",
        "remote",
        "cache_limit_bytes",
        "cache_shared",
        "kernel_path",
        "sync",
        "sim_trace",
        "sim_numerics",
        "cuda_archs",
        "binding",
    ]
)


class Environment:
    """All inputs of recipes except specs and files.

    Parameters
    ----------
    failure_directory : callable
        Returns the directory that keeps the files of a recipe's failed build.
    open_launcher : callable
        Loads a launcher's shared object and returns the address of its launch function.
    simulator : callable
        Returns the simulator's object for a target and a mode.
    glue_flags : callable
        Returns the flags of glue, or None if they are unknown.
    common_header : callable
        Takes a precompiled header's plan and returns its entry, or None. Builds without the entry take longer.
    """

    def __init__(
        self,
        settings: Settings,
        toolchain: Toolchain,
        failure_directory: Callable[[Recipe], Path],
        open_launcher: Callable[[Path], int],
        simulator: Callable[[Target, str], Path],
        glue_flags: Callable[[], GlueFlags | None],
        common_header: Callable[[Plan], Entry | None],
    ) -> None:
        self._settings = settings
        self.toolchain = toolchain
        self.failure_directory = failure_directory
        self.open_launcher = open_launcher
        self.simulator = simulator
        self.glue_flags = glue_flags
        self.common_header = common_header
        self._has_torch = True

    @cached_property
    def without_torch(self) -> Environment:
        """A copy of this environment for code that does not use torch. Its keys are made without importing torch."""
        copy = Environment(
            self._settings,
            self.toolchain,
            self.failure_directory,
            self.open_launcher,
            self.simulator,
            self.glue_flags,
            self.common_header,
        )
        copy._has_torch = False
        return copy

    def warm_key(self, name: str, values: object) -> str:
        """Return the name of a build with these values in this environment.

        The ``repr`` of a value has to show everything that affects the build.
        """
        digest = sha256_of(f"{self._text} {values!r}".encode())
        return f"{name}-{digest[:16]}"

    def recipe(
        self,
        arch: str,
        name: str,
        parts: dict[str, str],
        target: Target | None = None,
        own: Mapping[str, Path] = MappingProxyType({}),
        nvrtc: Nvrtc | None = None,
        *,
        stays_here: bool = False,
    ) -> Recipe:
        """Make a recipe from the given parts and from this environment.

        Parameters
        ----------
        nvrtc : Nvrtc, optional
            The compiler of the device code, if it is not the target's compiler.
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
            self.toolchain.versions(target, nvrtc),
            ("tkjit", *own),
            stays_here,
        )

    @property
    def compiler(self) -> str:
        """The compiler that the user chose for device code, ``nvcc`` or ``nvrtc``; otherwise empty."""
        return self._settings.compiler

    @property
    def for_debugger(self) -> bool:
        """Whether kernels for the CPU are compiled for a debugger."""
        return self._settings.sim_debug

    @property
    def header_path(self) -> tuple[Path, ...]:
        """The directories in which compilers search for headers by default."""
        return (*self._settings.header_path, _LOCAL_HEADERS)

    def forward_to_curand(self, included: Iterable[str], directory: Path) -> None:
        """Write a forwarding header for each cuRAND header in a list, so that every compiler finds these headers."""
        forward_to_curand(included, directory, self._settings, lambda: self.toolchain.cuda_root_or_none)

    @cached_property
    def _text(self) -> str:
        """The whole environment as text."""
        decisive = {name: value for name, value in vars(self._settings).items() if name not in _SETTINGS_OUTSIDE_KEYS}
        return repr((decisive, self._environment, flags.PACKAGE))

    @cached_property
    def _environment(self) -> tuple[dict[str, str], Path]:
        """The parts that every key contains, and the directory of Python's packages."""
        parts = {"python": ABI, "environment": self._settings.compiler_environment}
        if not self._has_torch:
            found = find_spec("torch")
            return parts, Path(found.origin if found and found.origin else __file__).parents[1]
        import torch

        return {**parts, "torch": str(torch.__version__)}, Path(torch.__file__).parents[1]


@cache
def rendering_files() -> list[str]:
    """Return the source files that make recipes from specs. While they are unchanged, so is the recipe of a spec."""
    in_loader = (
        f"loader/{name}"
        for name in (
            "device_code",
            "environment",
            "glue_flags",
            "modules",
            "launchers",
            "common_headers",
            "simulator",
            "static_shared",
            "translation",
            "warm_start",
        )
    )
    names = ("cubin", "cxx_search", "flags", "includes", "nvrtc", "targets", "toolchain")
    in_compile = (f"compile/{name}" for name in names)
    alone = ["packages", "registry", "cache/recipe", *in_compile, *in_loader]
    patterns = [
        *(f"{name}.py" for name in alone),
        "spec/*.py",
        "ptx/*.py",
        "source/*.py",
        "render/*.py",
        "torch_headers/*.py",
    ]
    return sorted(str(path) for name in patterns for path in flags.PACKAGE.glob(name))
