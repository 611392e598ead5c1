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
from tkjit.errors import ArgumentError

CPU = "cpu"
PTX = "+PTX"
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
_RELOCATABLE = re.compile(r"(?<!\S)(?:-dc|--device-c|--?(?:rdc|relocatable-device-code)[= ]true)(?!\S)")
_NAMES_ARCHITECTURE = re.compile(r"(?:-gencode|--generate-code|-arch|--gpu-architecture|-code|--gpu-code)(?==|$)")
_ARCHITECTURE = re.compile(r"\barch=(?:compute|sm)_(\d+[af]?)")
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
            return self.path.read_text(encoding="utf-8-sig", errors="replace")
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
    archs : tuple of str
        The GPU architectures of its CUDA sources, such as ``"90a"`` or ``"90+PTX"``, or ``"cpu"`` for the simulator;
        empty if it has no CUDA sources.
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
    archs: tuple[str, ...] = ()
    cflags: tuple[str, ...] = ()
    cuda_flags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    include_dirs: tuple[Path, ...] = ()
    has_stand_ins: bool = True
    lacking: str = ""
    model: str = ""

    @property
    def target(self) -> Target | None:
        """The first architecture."""
        if self.is_simulated:
            return cpu_target(model=self.model)
        return gpu_target(self.archs[0].removesuffix(PTX)) if self.archs else None

    @property
    def is_simulated(self) -> bool:
        """Whether its kernels run in the simulator."""
        return self.archs == (CPU,)

    @property
    def gencode(self) -> tuple[str, ...]:
        """The flags that name the architectures to nvcc: as with torch, the user's own if there are any."""
        if own := _architecture_flags(self.cuda_flags):
            return own
        found = []
        for arch in self.archs:
            number = arch.removesuffix(PTX)
            found.append(f"-gencode=arch=compute_{number},code=sm_{number}")
            if arch != number:
                found.append(f"-gencode=arch=compute_{number},code=compute_{number}")
        return tuple(found)

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
        host = ("-Xcompiler=-fPIC,-fvisibility=hidden", "-Xptxas=-v", *self.gencode)
        own = _architecture_flags(self.cuda_flags)
        others = [flag for flag in self.cuda_flags if flag not in own]
        return (*_last_standard((*common, *_NVCC, *_OWN_NVCC, *others)), *host)


def _architecture_flags(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags among nvcc's that name architectures, and their values.

    Examples
    --------
    >>> _architecture_flags(["-O3", "-gencode", "arch=compute_80,code=sm_80", "-arch=sm_90a"])
    ('-gencode', 'arch=compute_80,code=sm_80', '-arch=sm_90a')
    """
    found: list[str] = []
    for before, flag in zip(["", *flags], flags, strict=False):
        if _NAMES_ARCHITECTURE.match(flag) or _NAMES_ARCHITECTURE.fullmatch(before):
            found.append(flag)
    return tuple(found)


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
    archs: tuple[str, ...] = (),
) -> Extension:
    """What is compiled for the arguments of ``load``.

    Parameters
    ----------
    archs : tuple of str
        The architectures of CUDA sources. By default ``archs_for`` decides.
    """
    if not name.isidentifier():
        raise ArgumentError(f"cpp_extension: {name!r} is no name of a module")
    sources = tuple(sources)
    settings = Settings.from_environment()
    archs = archs or archs_for(sources, settings.cuda_archs, with_cuda=bool(with_cuda))
    if archs:
        sources = (CUDA_SYMBOLS, *sources)
    directories = [include_paths] if isinstance(include_paths, (str, Path)) else include_paths or ()
    return Extension(
        name,
        sources,
        archs,
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


def links_device_code(flags: Sequence[str]) -> bool:
    """Whether flags of nvcc's let kernels call device functions of other sources."""
    return bool(_RELOCATABLE.search(" ".join(flags)))


def archs_of_flags(flags: Sequence[str]) -> tuple[str, ...]:
    """The architectures that nvcc's own flags name; empty if none does.

    Examples
    --------
    >>> archs_of_flags(["-gencode=arch=compute_80,code=sm_80", "-arch=sm_90a", "-arch=native"])
    ('80', '90a')
    """
    found = _ARCHITECTURE.findall(" ".join(_architecture_flags(flags)))
    return tuple(dict.fromkeys(found))


def archs_for(sources: Iterable[Source], listed: str, *, with_cuda: bool = False) -> tuple[str, ...]:
    """The architectures of CUDA sources: those listed, or the current GPU's; none without such sources.

    Without a GPU it is the simulator's.

    Parameters
    ----------
    listed : str
        The value of ``TORCH_CUDA_ARCH_LIST``.
    with_cuda : bool
        Whether sources use CUDA that do not end with .cu.

    Raises
    ------
    ToolchainError
        If one is listed that is unknown.
    """
    if not with_cuda and not any(source.is_cuda for source in sources):
        return ()
    if listed:
        return archs_listed(listed)
    import torch

    if not torch.cuda.is_available():
        return (CPU,)
    return (arch_of_capability(*torch.cuda.get_device_capability()),)


def archs_listed(listed: str) -> tuple[str, ...]:
    """The architectures of ``TORCH_CUDA_ARCH_LIST``, which separates them by spaces or semicolons.

    Raises
    ------
    ToolchainError
        If one is unknown.

    Examples
    --------
    >>> archs_listed("8.0;9.0a 10.0+PTX")
    ('80', '90a', '100+PTX')
    """
    found = []
    for each in filter(None, re.split(r"[ ;,]+", listed)):
        number = each.removesuffix(PTX)
        found.append(gpu_target(number.replace(".", "")).arch + each[len(number) :])
    return tuple(dict.fromkeys(found))
