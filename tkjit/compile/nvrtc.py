"""Finds NVRTC, NVIDIA's compiler library for device code, and the headers of its version."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tkjit.compile.flags import PACKAGE, STAND_INS
from tkjit.errors import ToolchainError
from tkjit.system import files
from tkjit.system.install import pip_install

EXTRA = "tkjit[gpu]"  # installs NVRTC
CHILD = PACKAGE / "compile" / "nvrtc_child.py"
STANDARD_LIBRARY = STAND_INS / "nvrtc"  # the parts of the standard library that kernels use
_NAMES = tuple(f"libnvrtc.so.{major}" for major in (14, 13, 12))
_LIBRARIES = ("lib64", "lib", f"targets/{os.uname().machine}-linux/lib")
_VERSION = re.compile(rb"#define\s+CUDART_VERSION\s+(\d+)")


class ServedCommand(list[str]):
    """A command line that ``nvrtc_server.run`` can run."""


@dataclass(frozen=True)
class Nvrtc:
    """An NVRTC library that was found.

    Parameters
    ----------
    path : Path
        The shared library.
    version : str
        The version of NVRTC: ``13.0.88``.
    archs : tuple of str
        The architectures for which it compiles: ``90``.
    include_dirs : tuple of Path
        The directories with the headers of the same version.
    is_served : bool
        Whether a server compiles, instead of a new process for each compilation.
    """

    path: Path
    version: str
    archs: tuple[str, ...]
    include_dirs: tuple[Path, ...]
    is_served: bool = False

    @property
    def cuda(self) -> int:
        """The version of CUDA in the form of the macro ``CUDART_VERSION``: 13000 for 13.0."""
        major, minor, *_ = self.version.split(".")
        return int(major) * 1000 + int(minor) * 10

    def knows(self, arch: str) -> bool:
        """Return whether NVRTC compiles for an architecture. Its list lacks those with the suffixes ``a`` or ``f``."""
        return arch.rstrip("af") in self.archs

    def command(
        self, source: Path, cubin: Path, names: Path, expressions: Iterable[str], options: Iterable[str]
    ) -> list[str]:
        """Return the command line that compiles a source in a child process."""
        child = [sys.executable, "-I", "-S", str(CHILD), "compile", str(self.path)]
        line = [*child, str(source), str(cubin), str(names), *expressions, "--", *options]
        return ServedCommand(line) if self.is_served else line


_WITH_VALUE = ("-D", "-U", "-I", "-maxrregcount", "-Xptxas", "-Xcompiler", "-diag-suppress")
_KNOWN = re.compile(
    r"-use_fast_math|-lineinfo|-generate-line-info|-G|-device-debug|-w|-restrict|-extra-device-vectorization"
    r"|-(?:maxrregcount|ftz|prec-sqrt|prec-div|fmad|diag-suppress|diag-error|diag-warn)=.+"
)
_OF_HOST = re.compile(r"-O\d?|-expt-(?:relaxed-constexpr|extended-lambda)|-Xcompiler=.*|-extended-lambda")


def options_of(flags: Iterable[str]) -> list[str]:
    """Translate nvcc's flags to NVRTC's options, and leave out flags for the host compiler.

    Raises
    ------
    ValueError
        If NVRTC has no option for a flag. The error's text is the flag.
    """
    options = []
    following = iter(flags)
    for flag in following:
        name = flag[1:] if flag.startswith("--") else flag
        if name in _WITH_VALUE:
            separator = "" if name in ("-D", "-U", "-I") else "="
            name = f"{name}{separator}{next(following, '')}"
        if name.startswith("-Xptxas="):
            options += [f"--ptxas-options={one}" for one in name.removeprefix("-Xptxas=").split(",")]
        elif name.startswith(("-D", "-U", "-I")) or _KNOWN.fullmatch(name):
            options.append(f"-{name}" if name in ("-use_fast_math", "-restrict") else name)
        elif not _OF_HOST.fullmatch(name):
            raise ValueError(flag)
    return options


def directories(cuda_home: Path | None, toolkit: Path | None) -> list[Path]:
    """Return the directories to search for NVRTC: in CUDA_HOME, nvcc's toolkit, /usr/local/cuda and PyPI packages."""
    roots = dict.fromkeys(root for root in (cuda_home, toolkit, Path("/usr/local/cuda")) if root is not None)
    return [*(root / name for root in roots for name in _LIBRARIES), *_packages()]


def candidates(directories: Iterable[Path]) -> Iterator[Path]:
    """Yield every path at which NVRTC may be, with the newest version first in each directory."""
    return (directory / name for directory in directories for name in _NAMES)


def include_dirs(library: Path, version: str, others: Iterable[Path]) -> tuple[Path, ...]:
    """Return the directories with headers of the library's version, from its own toolkit or another one.

    Raises
    ------
    ToolchainError
        If there are no headers, or only those of other versions.
    """
    major, minor, *_ = version.split(".")
    known = []
    for directory in (
        library.parent.parent / "include",
        library.parent.parent.parent / "cuda_runtime/include",
        *others,
    ):
        found = _VERSION.search(_read(directory / "cuda_runtime_api.h"))
        if found is None:
            continue
        if int(found[1]) == int(major) * 1000 + int(minor) * 10:
            return (directory, directory / "cccl") if (directory / "cccl").is_dir() else (directory,)
        known.append(f"{directory} has those of {int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}")
    raise ToolchainError(
        f"{library} is NVRTC {major}.{minor}, but there are no headers of CUDA {major}.{minor}"
        f"{''.join(f'; {text}' for text in known)}; install them: {pip_install(EXTRA)}"
    )


def described(library: Path) -> str:
    """Return the version of a library and the architectures that it supports: ``13.0.88 sm_75 sm_80``.

    Raises
    ------
    ToolchainError
        If the library cannot be opened.
    """
    import subprocess  # not needed in a warm process

    command = [sys.executable, "-I", "-S", str(CHILD), "version", str(library)]
    child = subprocess.run(command, capture_output=True, text=True)
    if child.returncode != 0:
        printed = (child.stdout + child.stderr).strip().splitlines() or [f"exit status {child.returncode}"]
        raise ToolchainError(f"{library} does not work: {printed[-1]}")
    return child.stdout.strip()


def _packages() -> list[Path]:
    """Return the library directories of NVIDIA's PyPI packages. One of them may contain NVRTC."""
    try:
        spec = find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    return [Path(root, name, "lib") for root in roots for name in ("cu14", "cu13", "cuda_nvrtc")]


def _read(path: Path) -> bytes:
    try:
        return files.read(path, follow=True)
    except OSError:
        return b""
