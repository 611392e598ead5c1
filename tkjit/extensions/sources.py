"""What an extension is compiled from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from pathlib import Path

from tkjit.compile.flags import INCLUDE, simulated_flags
from tkjit.compile.targets import Target, arch_of_capability, cpu_target, gpu_target
from tkjit.config import Settings
from tkjit.errors import ArgumentError, ToolchainError

CPU = "cpu"
_CUDA, _CPP = (".cu",), (".cpp", ".cc", ".cxx", ".c++")
# as torch.utils.cpp_extension has them
_COMMON = ("-std=c++20", "-DTORCH_API_INCLUDE_EXTENSION_H")
_NVCC = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
)
WITHOUT_OPERATORS = "-DTKJIT_TORCH_WITHOUT_OPERATORS"  # a source's own registrations are parsed and left out
_SIMULATED = ("-DTKJIT_SIM=1", "-DUSE_CUDA", "-include", "tkjit/torch/simulated.h")
# the C ABI's functions for CUDA, and the driver's without a link dependency
_OWN_NVCC = ("-DUSE_CUDA", "-include", "tkjit/driver.h")


@dataclass(frozen=True)
class Source:
    """One file of an extension, or a text.

    Parameters
    ----------
    name : str
        Of the file.
    directory : Path or None
        Where it lies; None for a text.
    text : str
        What is compiled: of a file, a line that includes it.
    """

    name: str
    directory: Path | None
    text: str

    @property
    def is_cuda(self) -> bool:
        return self.name.endswith(_CUDA)

    @property
    def path(self) -> Path | None:
        return self.directory / self.name if self.directory else None

    @property
    def including(self) -> str:
        """How the text of a file begins."""
        return _including(self.name)

    @property
    def content(self) -> str:
        """What a person wrote.

        Raises
        ------
        ArgumentError
            If the file is not there any more.
        """
        if self.path is None:
            return self.text
        try:
            return self.path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ArgumentError(f"cpp_extension: cannot read {self.path}: {error.strerror}") from None


def _including(name: str) -> str:
    return f'#include "{name}"\n'


_SYMBOLS = INCLUDE / "tkjit/torch/cuda_symbols.cpp"
CUDA_SYMBOLS = Source(_SYMBOLS.name, _SYMBOLS.parent, _including(_SYMBOLS.name))


@dataclass(frozen=True)
class Extension:
    """A module of several sources, with the flags of all of them.

    Parameters
    ----------
    name : str
        Of the Python module.
    arch : str
        The GPU architecture of its CUDA sources, or ``"cpu"`` for the simulator; empty where there are none.
    cflags, cuda_flags, ldflags : tuple of str
        What g++ and nvcc are given besides torch's own flags, and the linker.
    has_stand_ins : bool
        Whether the headers of torch are tkjit's own.
    lacking : str
        Otherwise the first name that these lack.
    model : str
        The GPU architecture that the simulator is asked to be; empty for its own.
    """

    name: str
    sources: tuple[Source, ...]
    arch: str = ""
    cflags: tuple[str, ...] = ()
    cuda_flags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    include_dirs: tuple[Path, ...] = ()
    has_stand_ins: bool = True
    lacking: str = ""
    model: str = ""

    @property
    def target(self) -> Target | None:
        if self.arch == CPU:
            return cpu_target(model=self.model)
        return gpu_target(self.arch) if self.arch else None

    @property
    def is_simulated(self) -> bool:
        """Whether its kernels run in the simulator."""
        return self.arch == CPU

    @property
    def own_sources(self) -> tuple[Source, ...]:
        """Those that a user gave."""
        return tuple(source for source in self.sources if source != CUDA_SYMBOLS)

    def directories_of(self, source: Source) -> tuple[Path, ...]:
        """Where a source's own headers are looked for: next to it, and in the directories that the user named."""
        return (*((source.directory,) if source.directory else ()), *self.include_dirs)

    def flags_of(self, source: Source) -> tuple[str, ...]:
        """The flags that the compiler is given for a source, without directories."""
        common = (*_COMMON, f"-DTORCH_EXTENSION_NAME={self.name}")
        if not source.is_cuda:
            simulated = _SIMULATED if self.is_simulated else ()
            given = filterfalse(_is_standard, self.cflags) if self.is_simulated else self.cflags
            return (*_last_standard((*common, *simulated, *given)), "-O2", "-fPIC", "-fvisibility=hidden")
        if self.is_simulated:
            # whose headers need C++20
            given = filterfalse(_is_standard, self.cuda_flags)
            return (*common, *_SIMULATED, *simulated_flags(cpu_target(model=self.model), given))
        gencode = f"-gencode=arch=compute_{self.arch},code=sm_{self.arch}"
        host = ("-Xcompiler=-fPIC,-fvisibility=hidden", "-Xptxas=-v", gencode)
        return (*_last_standard((*common, *_NVCC, *_OWN_NVCC, *self.cuda_flags)), *host)


def _last_standard(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags with one ``-std``, of which nvcc takes no second."""
    standards = [flag for flag in flags if _is_standard(flag)]
    return (*standards[-1:], *(flag for flag in flags if not _is_standard(flag)))


def _is_standard(flag: str) -> bool:
    return flag.startswith(("-std=", "--std="))


def files_of(sources: str | Path | Iterable[str | Path]) -> tuple[Source, ...]:
    """The files that a user names.

    Raises
    ------
    ArgumentError
        If there is none, one is not there, or of an unknown kind.
    """
    given = [sources] if isinstance(sources, (str, Path)) else list(sources)
    if not given:
        raise ArgumentError("cpp_extension: no sources")
    return tuple(map(_file, given))


def _file(given: str | Path) -> Source:
    path = Path(given).absolute()
    if path.suffix not in (*_CUDA, *_CPP):
        raise ArgumentError(f"cpp_extension: {given}: expected {', '.join((*_CUDA, *_CPP))}")
    if not path.is_file():
        raise ArgumentError(f"cpp_extension: {given}: there is no such file")
    return Source(path.name, path.parent, _including(path.name))


def extension_of(
    name: str,
    sources: Iterable[Source],
    cflags: Sequence[str] | None = None,
    cuda_flags: Sequence[str] | None = None,
    ldflags: Sequence[str] | None = None,
    include_paths: str | Path | Sequence[str | Path] | None = None,
    *,
    with_cuda: bool | None = None,
    arch: str = "",
) -> Extension:
    """What is compiled for the arguments of ``load``.

    Parameters
    ----------
    arch : str
        For what CUDA sources are compiled; without it ``arch_for`` decides.
    """
    if not name.isidentifier():
        raise ArgumentError(f"cpp_extension: {name!r} is no name of a module")
    sources = tuple(sources)
    settings = Settings.from_environment()
    arch = arch or arch_for(sources, settings.cuda_archs, with_cuda=bool(with_cuda))
    if arch:
        sources = (CUDA_SYMBOLS, *sources)
    directories = [include_paths] if isinstance(include_paths, (str, Path)) else include_paths or ()
    return Extension(
        name,
        sources,
        arch,
        split_flags(cflags),
        split_flags(cuda_flags),
        split_flags(ldflags),
        tuple(Path(directory).absolute() for directory in directories),
        model=settings.model_arch,
    )


def split_flags(flags: Sequence[str] | None) -> tuple[str, ...]:
    """Flags as a shell splits them, since torch writes them into commands of a shell: ``"-Xptxas -O3"`` is two.

    Raises
    ------
    ArgumentError
        If a flag has a quotation mark that does not end.
    """
    try:
        return tuple(word for flag in flags or () for word in shlex.split(flag))
    except ValueError as error:
        raise ArgumentError(f"cpp_extension: a flag among {list(flags or ())} cannot be split: {error}") from None


def source_of_kernel(path: Path | None, text: str) -> Source:
    """A CUDA source by its file, or its text."""
    return _file(path) if path is not None else Source("kernel.cu", None, text)


def arch_for(sources: Iterable[Source], listed: str, *, with_cuda: bool = False) -> str:
    """The architecture of CUDA sources: the one that is listed, or the current GPU's; none without such sources.

    Without a GPU it is the simulator's.

    Parameters
    ----------
    listed : str
        As ``TORCH_CUDA_ARCH_LIST`` has it.
    with_cuda : bool
        Whether sources use CUDA that do not end with .cu.

    Raises
    ------
    ToolchainError
        If several are listed, or one that is unknown.
    """
    if not with_cuda and not any(source.is_cuda for source in sources):
        return ""
    if listed:
        return arch_listed(listed)
    import torch

    if not torch.cuda.is_available():
        return CPU
    return arch_of_capability(*torch.cuda.get_device_capability())


def arch_listed(listed: str) -> str:
    """The architecture of a list of one; empty for an empty one.

    Raises
    ------
    ToolchainError
        If several are listed, or one that is unknown.
    """
    if len(re.split(r"[ ;]+", listed)) > 1:
        raise ToolchainError(f"cpp_extension: TORCH_CUDA_ARCH_LIST={listed!r}: one architecture is compiled; give one")
    return gpu_target(listed.removesuffix("+PTX").replace(".", "")).arch if listed else ""
