"""Computes a launcher's compiler flags for any compiler, using nothing but the launcher's spec and target."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tkjit.compile.targets import DEFAULT_MODEL, NEWEST_MODEL, Target, generation, modelled_arch
from tkjit.spec import Spec

PACKAGE = Path(__file__).resolve().parents[1]
INCLUDE = PACKAGE / "include"
SIMULATOR = PACKAGE / "sim"
STAND_INS = INCLUDE / "stand_ins"
DRIVER = STAND_INS / "driver"  # the parts of <cuda_runtime.h> that the runtime needs, for machines without a toolkit
CUDA_LIBRARIES = STAND_INS / "cuda_libraries"  # stand-ins for the CPU, and for a toolkit without the libraries
RUNTIME = PACKAGE / "runtime"

_NVCC_FLAGS = ("-O3", "--expt-relaxed-constexpr", "--expt-extended-lambda", "-cudart=static")
# -ffp-contract=fast: the GPU contracts a * b + c, so the simulator has to do that as well.
# -fno-strict-aliasing: type punning through pointers is common in kernels.
# -g1: line tables, so that the message about a fault shows the line. They take 5 to 10 KB and no measurable time.
# -gdwarf-4: with g++'s DWARF 5, binutils 2.40 prints launcher.cu instead of the first file of the table.
# -fstack-clash-protection: touches each page of a stack frame, so that a large frame cannot jump over the guard page
# below a fiber's stack.
_CXX_FLAGS = (
    "-O2",
    "-g1",
    "-gdwarf-4",
    "-ffp-contract=fast",
    "-fno-strict-aliasing",
    "-fstack-clash-protection",
    "-Wno-unknown-pragmas",
    "-pthread",
)


# DWARF 5, because without it gdb does not show a file's directory.
_DEBUG_FLAGS = ("-O0", "-g", "-gdwarf-5", "-fno-omit-frame-pointer")
# A source that is preprocessed and adapted before it is compiled keeps __shared__, which is adapted as well.
TRANSLATED = ("-DTKJIT_SIM_TRANSLATES",)
# The flags for the part of the simulator that is compiled only once (sim/simulator.cpp).
_SIMULATOR_FLAGS = ("-std=c++20", "-O2", "-fno-strict-aliasing", "-pthread", "-fPIC", "-fvisibility=hidden")


# Code for a checker is optimised, because its launches would otherwise take three times as long. But the checker cannot
# find mistakes in accesses that g++ removes, merges or moves before instrumenting them, so these flags turn off the
# passes that do so. The comments name the accesses that would be lost. clang has no flags for this.
_KEEPS_ACCESSES = (
    "-fno-tree-dse",  # stores that are overwritten or never read
    "-fno-tree-dce",  # loads whose value is unused
    "-fno-tree-fre",  # loads and stores of a known value
    "-fno-tree-dominator-opts",
    "-fno-tree-loop-im",  # a loop's stores become one store after it
    "-fno-tree-sink",
    "-fno-tree-cselim",  # the stores of two branches become one
    "-fno-ipa-reference-addressable",  # variables that are written and never read
)
# With these flags, a copy or fill of a constant size remains a call, which the checker sees. Without them, the compiler
# replaces the call with a few instructions, which the checker does not see.
_KEEPS_CALLS = ("-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset", "-U_FORTIFY_SOURCE")


class Flags(NamedTuple):
    """The flags with which a compiler is called.

    Parameters
    ----------
    compile : tuple of str
        Flags for the compiler.
    paths : tuple of str
        Flags that contain directories, which may be elsewhere on another machine.
    link : tuple of str
        Flags for the linker.
    packages : tuple of str
        Flags that link with libraries that the process has loaded. No cache key contains these flags, because the
        libraries may be anywhere.
    """

    compile: tuple[str, ...]
    paths: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def libraries(self) -> tuple[str, ...]:
        """The names of the linked libraries: ``cublas`` for ``-lcublas``."""
        return tuple(name for name in _values((*self.compile, *self.link), ("-l",)) if name not in ("", "ineinfo"))

    @property
    def links(self) -> bool:
        """Whether the flags link anything that the compiler would not link by default."""
        return bool(self.libraries) or any(flag.endswith((".a", ".o", ".so")) for flag in (*self.compile, *self.link))

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        return tuple(Path(flag.removeprefix("-I")) for flag in self.paths)

    @property
    def system_dirs(self) -> tuple[str, ...]:
        """The directories whose headers count as system headers."""
        return tuple(_values(self.compile, ("-isystem", "-idirafter")))

    @property
    def beside_own(self) -> tuple[Path, ...]:
        """The directories that are searched for headers, without tkjit's own directories."""
        return tuple(directory for directory in self.search if directory not in (INCLUDE, SIMULATOR))

    @property
    def search(self) -> tuple[Path, ...]:
        """The directories that are searched for headers and libraries before the compiler's own directories.

        The stand-ins for CUDA's libraries are omitted. Nobody adds a header to that directory, so a warm call need not
        check it.
        """
        given = _values((*self.compile, *self.link), ("-I", "-isystem", "-iquote", "-idirafter", "-L"))
        return (*(directory for directory in self.include_dirs if directory != CUDA_LIBRARIES), *map(Path, given))


def _values(flags: Iterable[str], names: tuple[str, ...]) -> list[str]:
    """Return the values of all flags with some names, whether written as one word (``-lfoo``) or two (``-l foo``)."""
    found = []
    following = iter(flags)
    for flag in following:
        name = next((name for name in names if flag.startswith(name)), None)
        if name is not None:
            found.append(flag.removeprefix(name) or next(following, ""))
    return found


def launcher_flags(
    spec: Spec,
    target: Target,
    source_directory: Path | None,
    *,
    for_debugger: bool = False,
    checks_bounds: bool = False,
) -> Flags:
    """Return the flags for compiling a launcher, without its files and tools.

    The order of the flags is part of the cache key, so another order would rebuild every launcher.

    Parameters
    ----------
    source_directory : Path or None
        The directory in which the compiler finds the source's quoted includes.
    for_debugger : bool
        Whether code for the CPU keeps every line and variable, so that a debugger can show them.
    checks_bounds : bool
        Whether code for the CPU compares each index into a global layout with the layout's extents.
    """
    libraries_of = [path for library in spec.headers for path in library.include_paths]
    directories = [
        INCLUDE,
        *([SIMULATOR] if target.is_cpu else []),
        *(STAND_INS / name for library in spec.headers for name in library.stand_ins),
        source_directory,
        *spec.include_dirs,
        *libraries_of,
        CUDA_LIBRARIES,
    ]
    includes = tuple(f"-I{directory}" for directory in directories if directory)
    nvcc_flags = [flag for library in spec.headers for flag in library.flags] + list(spec.flags)
    arch = modelled_arch((known for known, _ in spec.sources), target.model) if target.is_cpu else target.arch
    by_arch = [f"-D{name}" for library in spec.headers for name in library.defines_for(arch)]
    defines = [*by_arch, *(f"-D{name}={value}" for name, value in spec.defines)]
    libraries = [f"-l{library}" for library in spec.libraries]
    packages = tuple(flag for library in spec.headers for flag in library.link_flags)
    if target.is_cpu:
        own = cpu_flags(spec.std, arch, target, for_debugger=for_debugger, checks_bounds=checks_bounds)
        preprocessor, linker = common_flags(nvcc_flags)
        return Flags((*own, *defines, *preprocessor), includes, (*linker, *libraries), packages)
    gencode = f"-gencode=arch=compute_{target.arch},code=sm_{target.arch}"
    host = ["-shared", "-Xcompiler=-fPIC,-fvisibility=hidden", "-Xptxas=-v"]
    own = [f"-std={spec.std}", *_NVCC_FLAGS, gencode, *host]
    return Flags((*own, *defines, *nvcc_flags), includes, tuple(libraries), packages)


def cpu_flags(
    std: str, arch: str, target: Target, *, for_debugger: bool = False, checks_bounds: bool = False
) -> list[str]:
    """Return the flags that all launchers for the CPU need, before the spec and the libraries add their own flags.

    For the other parameters, see ``launcher_flags``.

    Parameters
    ----------
    arch : str
        The GPU architecture that the simulator models.
    """
    return [
        f"-std={std}",
        *_CXX_FLAGS,
        *(_DEBUG_FLAGS if for_debugger else ()),
        *(["-DTKJIT_SIM_BOUNDS"] if checks_bounds else []),
        *_model(arch),
        *_march(target),
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
    ]


def simulated_flags(target: Target, given: Iterable[str]) -> list[str]:
    """Return the flags for compiling CUDA code of a program or an extension for the simulator.

    ``given`` has flags for nvcc; only its preprocessor flags are used.
    """
    preprocessor, _ = common_flags(given)
    return [
        *_CXX_FLAGS,
        *_model(target.model or DEFAULT_MODEL),
        *_march(target),
        "-fPIC",
        "-fvisibility=hidden",
        *preprocessor,
    ]


def simulator_flags(target: Target, defines: Iterable[str] = (), *, for_debugger: bool = False) -> Flags:
    """Return the flags for the simulator's object, which is linked with every launcher for the CPU."""
    # Optimise even for a debugger, because users step through kernels, but only query the simulator's state. It has no
    # rows, in which the state of threads is out of date.
    debug = ("-g", "-DTKJIT_SIM_WITHOUT_ROWS") if for_debugger else ()
    own = (*_SIMULATOR_FLAGS, *debug, *_march(target), *(f"-D{name}" for name in defines), "-c")
    return Flags(own, (f"-I{INCLUDE}", f"-I{SIMULATOR}"))


def checker_macros(mode: str) -> tuple[str, ...]:
    """Return the macros that the simulator's headers test in a checker; none if the mode is empty."""
    return ("TKJIT_SIM_CHECKED", f"TKJIT_SIM_{mode.upper()}") if mode else ()


def checker_flags(launcher: Flags, mode: str, *, is_clang: bool, cooperative: bool = False) -> Flags:
    """Return the flags for compiling a launcher for the checker, with debug information and instrumented accesses.

    Parameters
    ----------
    mode : str
        ``"memory"``, ``"race"`` or ``"overflow"``.
    cooperative : bool
        Whether all blocks of the kernel run at the same time, so that each needs its own shared memory.
    """
    kept = tuple(flag for flag in launcher.compile if flag not in ("-O2", "-shared"))
    if mode == "memory":
        # clang's AddressSanitizer has its own handlers for misaligned accesses, which only print a message. They would
        # replace the handlers in sim/check/address_sanitizer.h.
        alignment = () if is_clang else ("-fsanitize=alignment", "-fsanitize-recover=alignment")
        reported: tuple[str, ...] = ("-fsanitize=address", "-fsanitize-recover=address", *alignment)
    else:
        # by default, clang does not report a read that precedes a write to the same element
        volatile = (
            ("-mllvm", "-tsan-distinguish-volatile=1", "-mllvm", "-tsan-compound-read-before-write=1")
            if is_clang
            else ("--param=tsan-distinguish-volatile=1",)
        )
        # fill uninitialised variables with a pattern, so that none is zero by chance
        overflow = ("-fsanitize=signed-integer-overflow", "-fsanitize-recover=signed-integer-overflow")
        # no two variables share memory, because the detector knows registers that a wgmma still uses by their addresses
        apart = ("-mllvm", "-no-stack-coloring") if is_clang else ("-fstack-reuse=none",)
        more = overflow if mode == "overflow" else apart
        reported = ("-fsanitize=thread", *volatile, "-ftrivial-auto-var-init=pattern", *more)
    return Flags(
        (
            *kept,
            "-O1",
            "-g",
            "-ffunction-sections",  # so that the linker can drop unused functions
            *(["-DTKJIT_SIM_COOPERATIVE"] if cooperative else []),
            "-fno-omit-frame-pointer",
            *(() if is_clang else _KEEPS_ACCESSES),
            *_KEEPS_CALLS,
            *reported,
            *(f"-D{name}" for name in checker_macros(mode)),
        ),
        launcher.paths,
        launcher.link,
        launcher.packages,
    )


def _model(arch: str) -> list[str]:
    """Return the flags that set ``__CUDA_ARCH__``, or none for the simulator's default architecture."""
    # an architecture that is newer than the simulator's occurs only if the kernel has a source for the CPU
    if arch == DEFAULT_MODEL or generation(arch) > generation(NEWEST_MODEL):
        return []
    features = ["-DTKJIT_SIM_HAS_FEATURES"] if arch.endswith("a") else []
    return [f"-DTKJIT_SIM_CUDA_ARCH={10 * generation(arch)}", *features]


def _march(target: Target) -> list[str]:
    return [f"-march={target.cpu_level}"] if target.cpu_level.startswith("x86-64") else []


def common_flags(flags: Iterable[str]) -> tuple[list[str], list[str]]:
    """Select from nvcc's flags the preprocessor and linker flags, which every C++ compiler accepts."""
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
