"""Describes a set of headers to bind, together with its compiler options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tkjit.compile.flags import INCLUDE, Flags, common_flags
from tkjit.compile.targets import arch_of_capability, gpu_target
from tkjit.errors import ArgumentError, ToolchainError
from tkjit.system.install import pip_install

BACKENDS = ("cpp", "omp", "cuda")
STANDARDS = ("c++14", "c++17", "c++20")
_SUFFIXES = (".h", ".hh", ".hpp", ".hxx", ".cuh")
# Maps each backend to the Thrust backend that runs its algorithms. Other libraries ignore this setting.
_THRUST = {"cpp": "CPP", "omp": "OMP", "cuda": "CUDA"}
_CCCL = ("thrust/", "cub/", "cuda/std/")


@dataclass(frozen=True)
class HeaderSet:
    """Everything that determines a bound library.

    Parameters
    ----------
    headers : tuple of str
        Names as in an ``#include``, or absolute paths.
    namespaces : tuple of str
        The namespaces to bind. If empty, the names that the headers themselves declare are bound.
    backend : str
        ``"cpp"``: the C++ compiler; ``"omp"``: the C++ compiler with OpenMP; ``"cuda"``: nvcc.
    libraries : tuple of str
        The libraries that compiled calls are linked with: names such as ``kokkoscore``, or files.
    source : str
        C++ code to put after the headers, with the user's own functions and classes.
    arch : str
        The GPU architecture for ``backend="cuda"``.
    found_dirs : tuple of Path
        Include directories that tkjit found on this machine: the one with Thrust, CUB and libcu++, if it is needed.
    """

    headers: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    backend: str = "cpp"
    include_dirs: tuple[Path, ...] = ()
    libraries: tuple[str, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()
    std: str = "c++17"
    source: str = ""
    arch: str = ""
    found_dirs: tuple[Path, ...] = ()

    @property
    def search_path(self) -> tuple[Path, ...]:
        """The include directories."""
        return (*self.include_dirs, *self.found_dirs)

    @property
    def name(self) -> str:
        """A short name for the cache and for messages."""
        first = self.namespaces[0] if self.namespaces else Path(self.headers[0]).stem if self.headers else "source"
        return "".join(c if c.isalnum() else "_" for c in first)

    @property
    def text(self) -> str:
        """The text that precedes every compiled call: it includes all headers."""
        includes = [f'#include "{name}"' if Path(name).is_absolute() else f"#include <{name}>" for name in self.headers]
        own = ["", '#line 1 "source"', self.source] if self.source else []
        return "\n".join([*includes, "#include <tkjit/bind.h>", *own, ""])

    @property
    def preprocessor(self) -> tuple[str, ...]:
        """The flags with which both the compiler and libclang read the headers."""
        defines = {"THRUST_DEVICE_SYSTEM": f"THRUST_DEVICE_SYSTEM_{_THRUST[self.backend]}", **dict(self.defines)}
        of_user, _ = common_flags(self.flags)
        openmp = ["-fopenmp"] if self.backend == "omp" else []
        return (
            f"-std={self.std}",
            *openmp,
            *(f"-D{name}={value}" for name, value in defines.items()),
            *of_user,
        )

    @property
    def compile_flags(self) -> Flags:
        """The flags for compiling calls."""
        preprocessor, linker = common_flags(self.flags)
        own = [flag for flag in self.flags if flag not in (*preprocessor, *linker)]
        paths = tuple(f"-I{directory}" for directory in [INCLUDE, *self.search_path])
        if self.backend == "cuda":
            gencode = f"-gencode=arch=compute_{self.arch},code=sm_{self.arch}"
            extended = ("--expt-relaxed-constexpr", "--extended-lambda", "-cudart=static", "-w")
            return Flags(
                (*self.preprocessor, "-O2", "-Xcompiler=-fPIC,-fno-semantic-interposition", gencode, *extended, *own),
                paths,
            )
        # Do not add -fvisibility=hidden, because all compiled calls have to share the static variables of templates.
        # Locations within macros would take up a quarter of a precompiled header, so they are not tracked.
        quiet = ("-Wno-deprecated-declarations", "-ftrack-macro-expansion=0")
        # Without alignment, a loop's speed would depend on the other calls of its unit: a sum of 1,000,000 numbers
        # takes 1.17 times as long if the loop is badly placed.
        aligned = ("-falign-functions=32", "-falign-loops=32")
        # With interposition, calls to visible functions would go through the PLT, which costs a tenth of the time in
        # an incomplete factorisation.
        direct = ("-fPIC", "-fno-semantic-interposition")
        common = ("-O2", "-g0", *direct, *aligned, *quiet, *own)
        return Flags((*self.preprocessor, *common), paths)

    @property
    def link_flags(self) -> tuple[str, ...]:
        """The flags for linking the libraries. Libraries are linked whole, because later calls may need any part."""
        _, linker = common_flags(self.flags)
        if not self.libraries and not linker:
            return ()
        names = [name if "/" in name else f"-l{name}" for name in self.libraries]
        dirs = [flag for flag in linker if flag.startswith("-L")]
        more = [flag for flag in linker if flag not in dirs]
        places = [flag[2:] for flag in dirs if flag != "-L"] + [str(Path(name).parent) for name in names if "/" in name]
        # lets the dynamic loader find the libraries
        dirs += [f"-Wl,-rpath,{place}" for place in dict.fromkeys(places)]
        return (
            (*dirs, "-Wl,--no-as-needed,--whole-archive", *names, "-Wl,--no-whole-archive", *more)
            if names or more
            else ()
        )


def make_header_set(
    headers: Sequence[str | Path],
    *,
    namespaces: str | Sequence[str] = (),
    backend: str = "cpp",
    include_dirs: Iterable[str | Path] = (),
    libraries: Iterable[str | Path] = (),
    defines: dict[str, object] | None = None,
    flags: Iterable[str] = (),
    std: str = "c++17",
    source: str = "",
    arch: str = "",
) -> HeaderSet:
    """Check a user's options and make a header set from them.

    Raises
    ------
    ArgumentError
        If an option has an invalid value.
    ToolchainError
        If a directory is missing or has no headers, or if Thrust or a GPU is needed and not found.
    """
    if not headers and not source:
        raise ArgumentError("bind: name a header, a directory of headers, or pass source=")
    if backend not in BACKENDS:
        raise ArgumentError(f"bind: backend={backend!r}; expected one of {', '.join(map(repr, BACKENDS))}")
    if std not in STANDARDS:
        raise ArgumentError(f"bind: std={std!r}; expected one of {', '.join(map(repr, STANDARDS))}")
    directories = [Path(directory).absolute() for directory in include_dirs]
    for directory in directories:
        if not directory.is_dir():
            raise ToolchainError(f"bind: the include directory {directory} does not exist")
    names = [name for header in headers for name in _headers_in(header)]
    found = _cccl(names, directories) if any(name.startswith(_CCCL) for name in names) else []
    return HeaderSet(
        tuple(names),
        (namespaces,) if isinstance(namespaces, str) else tuple(namespaces),
        backend,
        tuple(directories),
        tuple(str(Path(name).absolute()) if "/" in str(name) else str(name) for name in libraries),
        tuple((name, str(value)) for name, value in (defines or {}).items()),
        tuple(flags),
        std,
        source,
        _arch(backend, arch),
        tuple(found),
    )


def _arch(backend: str, arch: str) -> str:
    """Return the architecture that nvcc compiles for: the given one, or the first GPU's."""
    if backend != "cuda":
        if arch:
            raise ArgumentError(f"bind: arch={arch!r} is for GPUs, but backend={backend!r} uses none; leave arch out")
        return ""
    if arch:
        return gpu_target(arch).arch
    import torch

    if not torch.cuda.is_available():
        raise ToolchainError("bind: backend='cuda', but no GPU is visible; pass its architecture, such as arch='90a'")
    return arch_of_capability(*torch.cuda.get_device_capability())


def _headers_in(given: str | Path) -> list[str]:
    """Return the given header, or the headers of a directory."""
    path = Path(given)
    if path.is_dir():
        found = sorted(str(each.absolute()) for each in path.iterdir() if each.suffix in _SUFFIXES)
        if not found:
            raise ToolchainError(f"bind: no headers in the directory {path}")
        return found
    return [str(path.absolute()) if path.is_file() else str(given)]


def _cccl(names: list[str], directories: list[Path]) -> list[Path]:
    """Find the directory of Thrust, CUB and libcu++, in a CUDA toolkit or a PyPI package.

    The list is empty if one of the user's directories has them.
    """
    first = next(name for name in names if name.startswith(_CCCL))
    if any((directory / first).is_file() for directory in directories):
        return []
    from cuda.pathfinder import find_nvidia_header_directory

    found = find_nvidia_header_directory("cccl")
    if found is None:
        raise ToolchainError(
            f"bind: {first} was not found; install it: {pip_install('nvidia-cuda-cccl')}, or pass include_dirs="
        )
    return [Path(found)]
