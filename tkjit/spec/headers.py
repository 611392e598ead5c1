"""Header libraries for kernels: their names, origins and compiler options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tkjit.errors import SpecError


class Git(NamedTuple):
    """A library's origin: a commit in a Git repository."""

    url: str
    commit: str


class Wheel(NamedTuple):
    """A library's origin: a directory in a PyPI package."""

    package: str
    version: str
    directory: str


@dataclass(frozen=True)
class HeaderLibrary:
    """A library of headers.

    Parameters
    ----------
    name : str
        A lower-case name. For libraries that tkjit knows by name, the environment variable ``NAME_ROOT`` sets the root.
    proof : str
        A file that identifies the library's root directory, relative to that root: ``include/kittens.cuh``.
    include_dirs : tuple of str
        The include directories, relative to the root.
    root : Path or None
        The library's directory; None if tkjit has to find it.
    flags : tuple of str
        The nvcc flags for every kernel that uses the library.
    arch_defines : tuple of (int, str)
        Macros, each with the earliest architecture that uses it. For example, of
        ``(90, "KITTENS_HOPPER"), (100, "KITTENS_BLACKWELL")`` a kernel for ``sm_90a`` gets the first.
    uses_driver : bool
        Whether the library's headers call the CUDA driver, for example to create tensor maps.
    in_toolkit : bool
        Whether a complete CUDA toolkit contains the library. A toolkit assembled from wheels may not.
    runs_on_cpu : bool
        Whether the simulator supports the library.
    stand_ins : tuple of str
        Directories in ``include/stand_ins`` that replace headers for Python bindings.
    package : str
        The Python package that contains the library; the package's directory is the root.
    libraries : tuple of str
        Shared libraries in the library's ``lib`` directory to link kernels with. They are loaded before the kernel.
    origin : Git or Wheel or None
        The version that ``python -m tkjit headers add`` installs.
    """

    name: str
    proof: str
    include_dirs: tuple[str, ...] = ("include",)
    root: Path | None = None
    flags: tuple[str, ...] = ()
    arch_defines: tuple[tuple[int, str], ...] = ()
    uses_driver: bool = False
    in_toolkit: bool = False
    runs_on_cpu: bool = True
    stand_ins: tuple[str, ...] = ()
    package: str = ""
    libraries: tuple[str, ...] = ()
    origin: Git | Wheel | None = None

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name != self.name.lower():
            raise SpecError(f"HeaderLibrary({self.name!r}): expected a name in lower case")

    @property
    def variable(self) -> str:
        """The environment variable that sets the library's root directory."""
        return f"{self.name.upper()}_ROOT"

    @property
    def include_paths(self) -> tuple[Path, ...]:
        """The directories to search for the library's headers; empty if its root is not known yet."""
        return tuple(self.root / path for path in self.include_dirs) if self.root else ()

    @property
    def link_flags(self) -> tuple[str, ...]:
        """The flags that link a kernel with the library's shared libraries."""
        named = tuple(f"-l{name}" for name in self.libraries)
        return (f"-L{self.root / 'lib'}", *named) if self.root and named else ()

    def defines_for(self, arch: str) -> tuple[str, ...]:
        """Return the macros to define for an architecture.

        Examples
        --------
        >>> LIBRARIES["thunderkittens"].defines_for("90a"), LIBRARIES["thunderkittens"].defines_for("cpu")
        (('KITTENS_HOPPER',), ())
        """
        digits = arch.rstrip("af")
        fitting = [known for known in self.arch_defines if digits.isdigit() and known[0] <= int(digits)]
        return (max(fitting)[1],) if fitting else ()


LIBRARIES = {
    library.name: library
    for library in (
        HeaderLibrary(
            "thunderkittens",
            proof="include/kittens.cuh",
            include_dirs=("include", "prototype"),
            # the flags from ThunderKittens' own Makefiles; some of its kernels use std::chrono without including it
            flags=("--use_fast_math", "-DNDEBUG", "-include", "chrono", "-Xcompiler=-fno-strict-aliasing,-Wno-psabi"),
            arch_defines=((80, "KITTENS_AMPERE"), (90, "KITTENS_HOPPER"), (100, "KITTENS_BLACKWELL")),
            uses_driver=True,
            stand_ins=("thunderkittens",),
            origin=Git("https://github.com/HazyResearch/ThunderKittens", "0b55588d2769dde0c7a9a606ffc015b0ca7a9551"),
        ),
        HeaderLibrary(
            "cutlass",
            proof="include/cutlass/cutlass.h",
            include_dirs=("include", "tools/util/include"),
            uses_driver=True,
            runs_on_cpu=False,
            origin=Wheel("nvidia-cutlass", "4.2.0.0", "cutlass_library/source"),
        ),
        HeaderLibrary(
            "curand",
            proof="curand_kernel.h",
            include_dirs=(".",),
            in_toolkit=True,
            origin=Wheel("nvidia-curand", "10.4.0.35", "nvidia/cu13/include"),
        ),
        HeaderLibrary(
            "torch",
            proof="include/torch/headeronly/core/ScalarType.h",
            flags=("-DTORCH_EXTENSION_NAME=tkjit_source", "-DUSE_CUDA", "-include", "tkjit/torch/in_kernel.h"),
            uses_driver=True,
            stand_ins=("torch",),
            package="torch",
            libraries=("torch_cpu",),
        ),
    )
}
