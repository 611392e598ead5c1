"""The sources, flags and architectures that an extension is compiled from."""

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
# _COMMON and _NVCC are the flags that torch.utils.cpp_extension passes.
_COMMON = ("-std=c++20", "-DTORCH_API_INCLUDE_EXTENSION_H")
_NVCC = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
)
WITHOUT_OPERATORS = "-DTKJIT_TORCH_WITHOUT_OPERATORS"  # a source's registrations are parsed, but register nothing
_RELOCATABLE = re.compile(r"(?<!\S)(?:-dc|--device-c|--?(?:rdc|relocatable-device-code)[= ]true)(?!\S)")
_NAMES_ARCHITECTURE = re.compile(r"(?:-gencode|--generate-code|-arch|--gpu-architecture|-code|--gpu-code)(?==|$)")
_ARCHITECTURE = re.compile(r"\barch=(?:compute|sm)_(\d+[af]?)")
_SIMULATED = ("-DTKJIT_SIM=1", "-DUSE_CUDA", "-include", "tkjit/torch/simulated.h")
# -DUSE_CUDA declares torch's C ABI functions for CUDA. The header declares the CUDA driver's functions without a link
# dependency.
_OWN_NVCC = ("-DUSE_CUDA", "-include", "tkjit/driver.h")


@dataclass(frozen=True)
class Source:
    """One source of an extension, a file or a text.

    Parameters
    ----------
    name : str
        The file's name.
    directory : Path or None
        The file's directory; None for a text.
    text : str
        The text to compile. For a file, it is a line that includes the file.
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
        """The line with which the text of a file begins."""
        return _including(self.name)

    @property
    def content(self) -> str:
        """The code as the user wrote it.

        Raises
        ------
        ArgumentError
            If the file cannot be read any more.
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
    """The sources of one module, and the flags for all of them.

    Parameters
    ----------
    name : str
        The name of the Python module.
    archs : tuple of str
        The GPU architectures of its CUDA sources, such as ``"90a"`` or ``"90+PTX"``, or ``"cpu"`` for the simulator;
        empty if it has no CUDA sources.
    cflags, cuda_flags, ldflags : tuple of str
        Flags for g++, nvcc and the linker, in addition to torch's own.
    has_stand_ins : bool
        Whether it is compiled with tkjit's stand-ins for torch's headers.
    lacking : str
        If ``has_stand_ins`` is False, the first name that the stand-ins lack.
    model : str
        The GPU architecture that the simulator should model; empty for its default.
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
        """The first architecture; None if there is none."""
        if self.is_simulated:
            return cpu_target(model=self.model)
        return gpu_target(self.archs[0].removesuffix(PTX)) if self.archs else None

    @property
    def is_simulated(self) -> bool:
        """Whether its kernels run in the simulator."""
        return self.archs == (CPU,)

    @property
    def gencode(self) -> tuple[str, ...]:
        """nvcc's flags for the architectures. As with torch, the user's own flags replace them."""
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
        """The sources that the user passed."""
        return tuple(source for source in self.sources if source != CUDA_SYMBOLS)

    def directories_of(self, source: Source) -> tuple[Path, ...]:
        """Return the directories of a source's own headers: the source's directory, and those that the user passed."""
        return (*((source.directory,) if source.directory else ()), *self.include_dirs)

    def flags_of(self, source: Source) -> tuple[str, ...]:
        """Return the compiler's flags for a source, without include directories."""
        common = (*_COMMON, f"-DTORCH_EXTENSION_NAME={self.name}")
        if not source.is_cuda:
            simulated = _SIMULATED if self.is_simulated else ()
            of_user = filterfalse(_is_standard, self.cflags) if self.is_simulated else self.cflags
            return (*_last_standard((*common, "-O2", *simulated, *of_user)), "-fPIC", "-fvisibility=hidden")
        if self.is_simulated:
            # the user's standard is dropped, because the simulator's headers need C++20
            of_user = filterfalse(_is_standard, self.cuda_flags)
            return (*common, *_SIMULATED, *simulated_flags(cpu_target(model=self.model), of_user))
        host = ("-Xcompiler=-fPIC,-fvisibility=hidden", "-Xptxas=-v", *self.gencode)
        own = _architecture_flags(self.cuda_flags)
        others = [flag for flag in self.cuda_flags if flag not in own]
        return (*_last_standard((*common, *_NVCC, *_OWN_NVCC, *others)), *host)


def _architecture_flags(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the nvcc flags that name architectures, with their values.

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
    """Return the flags with only the last ``-std``, because nvcc rejects a second one."""
    standards = [flag for flag in flags if _is_standard(flag)]
    return (*standards[-1:], *(flag for flag in flags if not _is_standard(flag)))


def _is_standard(flag: str) -> bool:
    return flag.startswith(("-std=", "--std="))


def files_of(sources: str | Path | Iterable[str | Path]) -> tuple[Source, ...]:
    """Return the source files that a user passed.

    Raises
    ------
    ArgumentError
        If there are none, or if one does not exist or has an unknown suffix.
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
    """Create an extension from the arguments of ``load``.

    Parameters
    ----------
    archs : tuple of str
        The architectures of CUDA sources. By default ``archs_for`` decides.

    Raises
    ------
    ArgumentError
        If the name is not a Python identifier, or a flag has an unclosed quotation mark.
    ToolchainError
        If ``TORCH_CUDA_ARCH_LIST`` names an unknown architecture.
    """
    if not name.isidentifier():
        raise ArgumentError(f"cpp_extension: name is {name!r}; expected a Python identifier, because it names a module")
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
    """Split flags like a shell, because torch pastes them into shell commands: ``"-Xptxas -O3"`` becomes two.

    Raises
    ------
    ArgumentError
        If a flag has an unclosed quotation mark.
    """
    try:
        return tuple(word for flag in flags or () for word in shlex.split(flag))
    except ValueError as error:
        raise ArgumentError(f"cpp_extension: a flag in {list(flags or ())} cannot be split: {error}") from None


def source_of_kernel(path: Path | None, text: str) -> Source:
    """Create a CUDA source from a file or, if there is none, from a text."""
    return _file(path) if path is not None else Source("kernel.cu", None, text)


def links_device_code(flags: Sequence[str]) -> bool:
    """Whether nvcc's flags let kernels call device functions in other sources."""
    return bool(_RELOCATABLE.search(" ".join(flags)))


def archs_of_flags(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the architectures that nvcc's flags name; empty if they name none.

    Examples
    --------
    >>> archs_of_flags(["-gencode=arch=compute_80,code=sm_80", "-arch=sm_90a", "-arch=native"])
    ('80', '90a')
    """
    found = _ARCHITECTURE.findall(" ".join(_architecture_flags(flags)))
    return tuple(dict.fromkeys(found))


def archs_for(sources: Iterable[Source], listed: str, *, with_cuda: bool = False) -> tuple[str, ...]:
    """Return the architectures of CUDA sources.

    These are the ones in ``listed``. If ``listed`` is empty, the current GPU's architecture is used, or the simulator
    if there is no GPU. The result is empty if no source uses CUDA.

    Parameters
    ----------
    listed : str
        The value of ``TORCH_CUDA_ARCH_LIST``.
    with_cuda : bool
        Whether sources that do not end in .cu use CUDA as well.

    Raises
    ------
    ToolchainError
        If a listed architecture is unknown.
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
    """Return the architectures in ``TORCH_CUDA_ARCH_LIST``, which separates them by spaces or semicolons.

    Raises
    ------
    ToolchainError
        If an architecture is unknown.

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
