"""Header libraries of kernels: their names, and the compiler options that their headers need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tkjit.errors import SpecError


class Git(NamedTuple):
    """Where a library comes from: a commit of a repository."""

    url: str
    commit: str


class Wheel(NamedTuple):
    """Where a library comes from: a package of PyPI, in which it lies below a directory."""

    package: str
    version: str
    directory: str


@dataclass(frozen=True)
class HeaderLibrary:
    """A library of headers.

    Parameters
    ----------
    name : str
        In lower case; of a library that tkjit knows by name, ``NAME_ROOT`` in the environment says where it lies.
    proof : str
        A file that it has, relative to its root: ``include/kittens.cuh``.
    include_dirs : tuple of str
        Relative to its root.
    root : Path or None
        Where it lies; None where it has to be found.
    flags : tuple of str
        nvcc's, for every kernel that is written on it.
    arch_defines : tuple of (int, str)
        Macros by the oldest architecture they are for: of ``(90, "KITTENS_HOPPER"), (100, "KITTENS_BLACKWELL")``
        a kernel for ``sm_90a`` gets the first.
    uses_driver : bool
        Whether its headers call the CUDA driver, as tensor maps do.
    in_toolkit : bool
        Whether a whole CUDA toolkit has it, as one that is put together of wheels may not.
    runs_on_cpu : bool
        Whether the simulator can take it.
    stand_ins : tuple of str
        Directories of ``include/stand_ins``: in the place of headers that bind kernels to Python.
    package : str
        The Python package that it is a part of: its root is where that lies.
    libraries : tuple of str
        Shared libraries in its ``lib`` that a kernel is linked with; the process has loaded them before the kernel.
    origin : Git or Wheel or None
        What ``python -m tkjit headers add`` installs.
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
        """The variable of the environment that says where it lies."""
        return f"{self.name.upper()}_ROOT"

    @property
    def include_paths(self) -> tuple[Path, ...]:
        """Where its headers are searched; nowhere while it has no root."""
        return tuple(self.root / path for path in self.include_dirs) if self.root else ()

    @property
    def link_flags(self) -> tuple[str, ...]:
        """What links a kernel with its shared libraries."""
        named = tuple(f"-l{name}" for name in self.libraries)
        return (f"-L{self.root / 'lib'}", *named) if self.root and named else ()

    def defines_for(self, arch: str) -> tuple[str, ...]:
        """The macros for an architecture.

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
            # its Makefiles' flags; some of its kernels use std::chrono and do not include it
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
