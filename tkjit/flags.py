"""A launcher's compiler flags, from its spec and target alone: no compiler is looked at."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tkjit.spec import Spec
from tkjit.targets import Target

PACKAGE = Path(__file__).resolve().parent
INCLUDE = PACKAGE / "include"
SIMULATOR = PACKAGE / "sim"
RUNTIME = PACKAGE / "runtime"

_NVCC_FLAGS = ("-O3", "--expt-relaxed-constexpr", "--expt-extended-lambda", "-cudart=static")
# the GPU contracts a * b + c, and so does the simulator; type punning through pointers is common in kernels
_CXX_FLAGS = ("-O2", "-ffp-contract=fast", "-fno-strict-aliasing", "-Wno-unknown-pragmas", "-pthread")


class Flags(NamedTuple):
    """A compilation's flags: of the compiler, of directories (which may lie elsewhere another time), of the linker."""

    compile: tuple[str, ...]
    paths: tuple[str, ...] = ()
    link: tuple[str, ...] = ()

    @property
    def libraries(self) -> tuple[str, ...]:
        """The names of the libraries that are linked: ``cublas`` of ``-lcublas``."""
        return tuple(
            flag.removeprefix("-l")
            for flag in (*self.compile, *self.link)
            if flag.startswith("-l") and flag not in ("-l", "-lineinfo")
        )

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        return tuple(Path(flag.removeprefix("-I")) for flag in self.paths)


def launcher_flags(spec: Spec, target: Target, source_directory: Path | None) -> Flags:
    """The flags of a launcher's compilation, without its files and tools. Their order is part of the key."""
    # a source's own directory is where its quoted includes are found
    directories = [INCLUDE, *([SIMULATOR] if target.is_cpu else []), source_directory, *spec.include_dirs]
    includes = tuple(f"-I{directory}" for directory in directories if directory)
    defines = [f"-D{name}={value}" for name, value in spec.defines]
    libraries = [f"-l{library}" for library in spec.libraries]
    if target.is_cpu:
        march = [f"-march={target.cpu_level}"] if target.cpu_level.startswith("x86-64") else []
        own = [f"-std={spec.std}", *_CXX_FLAGS, *march, "-shared", "-fPIC", "-fvisibility=hidden"]
        preprocessor, linker = _common_flags(spec.flags)
        return Flags((*own, *defines, *preprocessor), includes, (*linker, *libraries))
    gencode = f"-gencode=arch=compute_{target.arch},code=sm_{target.arch}"
    host = ["-shared", "-Xcompiler=-fPIC,-fvisibility=hidden", "-Xptxas=-v"]
    own = [f"-std={spec.std}", *_NVCC_FLAGS, gencode, *host]
    return Flags((*own, *defines, *spec.flags), includes, tuple(libraries))


def _common_flags(flags: Iterable[str]) -> tuple[list[str], list[str]]:
    """Of nvcc's flags, those that every C++ compiler reads: the preprocessor's, and the linker's."""
    preprocessor: list[str] = []
    linker: list[str] = []
    following = iter(flags)
    for flag in following:
        if flag in ("-I", "-D", "-U", "-include", "-isystem"):
            preprocessor += [flag, next(following, "")]
        elif flag.startswith(("-I", "-D", "-U")):
            preprocessor.append(flag)
        elif flag.startswith(("-L", "-l", "-Wl,")) and flag != "-lineinfo":
            linker.append(flag)
    return preprocessor, linker
