"""Finds compilers and headers, reads their versions, and builds command lines."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.compile import cxx_search
from tkjit.compile.cxx_search import Rejected
from tkjit.compile.flags import PACKAGE, Flags
from tkjit.compile.targets import Target
from tkjit.compile.tool_memo import ToolMemo
from tkjit.config import Settings
from tkjit.errors import TkjitWarning, ToolchainError
from tkjit.system.install import pip_install, system_install

if TYPE_CHECKING:
    from tkjit.compile.nvrtc import Nvrtc


@dataclass(frozen=True)
class Tool:
    """A compiler that was found.

    Parameters
    ----------
    path : Path
    version : str
        The version that the tool prints and, for a script, a digest of the script's text. It is part of every
        cache key.
    origin : str
        Where the tool was found: ``CUDA_HOME``, ``PATH``, ``PyPI``.
    """

    path: Path
    version: str
    origin: str


class Toolchain:
    """Finds compilers and other tools, and remembers their versions by path, size and modification time.

    Each access to a property searches again, because a compiler may be replaced while a notebook is open.

    Parameters
    ----------
    memo : Path
        The file that stores the versions for later processes, so that a warm call starts no process.
    """

    def __init__(self, settings: Settings, memo: Path) -> None:
        self._settings = settings
        self._memo = ToolMemo(memo, settings)
        self._cxx_search = cxx_search.CxxSearch(settings.search_path, self._memo)

    @property
    def cxx(self) -> Tool:
        """The C++ compiler: ``CXX``, or the first usable one on ``PATH``.

        Raises
        ------
        ToolchainError
            If there is no usable compiler. The text lists the compilers that were rejected.

        Warns
        -----
        TkjitWarning
            If a compiler on ``PATH`` was skipped. The warning is not repeated until the compiler's file changes.
        """
        if given := _compiler_alone(self._settings.cxx):
            return self._cxx_of_user(given)
        found = self._cxx_search.find()
        if found.path is None:
            raise ToolchainError(_no_compiler(found.rejected))
        if first := self._cxx_search.not_told_yet(found):
            _warn_of_rejected(first, found.path)
        return Tool(found.path, found.version, "PATH")

    def _cxx_of_user(self, given: str) -> Tool:
        path = self._which(given)
        if path is None:
            raise ToolchainError(f"no C++ compiler {given!r} (CXX); set CXX to a program, or unset it")
        try:
            return Tool(path, cxx_search.version(path, self._memo), "CXX")
        except ToolchainError as error:
            raise ToolchainError(f"{path} {error}; set CXX to another compiler, or unset it") from None

    @property
    def rejected_cxx(self) -> list[Rejected]:
        """The unusable compilers on ``PATH`` that come before ``cxx``; empty if ``CXX`` is set.

        Each compiler is checked again, so that a repaired one is used from now on. ``cxx`` no longer warns about these
        compilers, because the caller lists them.
        """
        if self._settings.cxx:
            return []
        found = self._cxx_search.find(again=True)
        self._cxx_search.not_told_yet(found)
        return found.rejected

    @property
    def nvcc(self) -> Tool:
        """The CUDA compiler: in ``CUDA_HOME``, on ``PATH``, in ``/usr/local/cuda``, or installed from PyPI.

        Raises
        ------
        ToolchainError
            If there is none.
        """
        for origin, path in self._nvcc_candidates():
            if path is not None and os.access(path, os.X_OK):
                return Tool(path.absolute(), self._memo.version(path, partial(_version_output, path)), origin)
        raise ToolchainError(
            f"no nvcc in CUDA_HOME, on PATH, in /usr/local/cuda or from PyPI; install it: {pip_install('tkjit[nvcc]')}"
        )

    def _nvcc_candidates(self) -> list[tuple[str, Path | None]]:
        home = self._settings.cuda_home
        candidates: list[tuple[str, Path | None]] = [
            ("CUDA_HOME", home / "bin/nvcc" if home else None),
            ("PATH", self._which("nvcc")),
            ("/usr/local/cuda", Path("/usr/local/cuda/bin/nvcc")),
        ]
        if not any(path and os.access(path, os.X_OK) for _, path in candidates):
            candidates.append(("PyPI", _from_pypi("nvcc")))
        return candidates

    @property
    def cuda_root(self) -> Path:
        """The toolkit's root, which contains ``bin``. tkjit asks nvcc, because the nvcc on ``PATH`` may be a script."""
        nvcc = self.nvcc.path
        return Path(self._memo.fact(nvcc, "root", lambda: _toolkit_root(nvcc)))

    @property
    def nvrtc(self) -> Nvrtc:
        """NVRTC with the headers of its version: in ``CUDA_HOME``, next to nvcc, in ``/usr/local/cuda``, or from PyPI.

        Raises
        ------
        ToolchainError
            If there is no NVRTC, or there are no headers of its version.
        """
        from tkjit.compile import nvrtc

        failed = ""
        root = self.cuda_root_or_none
        for library in nvrtc.candidates(nvrtc.directories(self._settings.cuda_home, root)):
            if not library.is_file():
                continue
            try:
                version, *archs = self._memo.fact(library, "nvrtc", partial(nvrtc.described, library)).split()
                headers = nvrtc.include_dirs(library, version, [root / "include"] if root else [])
            except ToolchainError as error:
                failed = failed or str(error)
                continue
            known = tuple(arch.removeprefix("sm_") for arch in archs)
            return nvrtc.Nvrtc(library, version, known, headers, self._settings.compiler_server)
        places = "in CUDA_HOME, next to nvcc, in /usr/local/cuda or from PyPI"
        raise ToolchainError(failed or f"no NVRTC {places}; install it: {pip_install(nvrtc.EXTRA)}")

    @property
    def cuda_root_or_none(self) -> Path | None:
        """The toolkit's root, or None if there is no nvcc."""
        with suppress(ToolchainError):
            return self.cuda_root
        return None

    @property
    def cuobjdump(self) -> Path:
        """The tool that prints machine code: next to nvcc, on ``PATH``, or from PyPI.

        Raises
        ------
        ToolchainError
            If it or nvdisasm, which it runs, is missing.
        """
        root = self.cuda_root_or_none
        candidates = [root / "bin/cuobjdump" if root else None, self._which("cuobjdump"), _from_pypi("cuobjdump")]
        for path in candidates:
            if path is not None and os.access(path, os.X_OK) and os.access(path.with_name("nvdisasm"), os.X_OK):
                return path
        raise ToolchainError(
            "no cuobjdump with nvdisasm next to nvcc, on PATH or from PyPI; install them: "
            + pip_install("nvidia-cuda-cuobjdump", "nvidia-cuda-nvdisasm")
        )

    @property
    def gpu_archs(self) -> frozenset[str]:
        """The architectures for which nvcc compiles. nvcc's own list lacks those with the suffixes ``a`` and ``f``."""
        nvcc = self.nvcc.path
        listed = self._memo.fact(nvcc, "archs", lambda: _output([nvcc, "--list-gpu-code"]))
        plain = re.findall(r"sm_(\d+)\b", listed)
        own = [f"{arch}a" for arch in plain if int(arch) >= 90]
        family = [f"{arch}f" for arch in plain if int(arch) >= 100]
        return frozenset([*plain, *own, *family])

    @property
    def quick_linking(self) -> list[str]:
        """The flag for the linker gold, if gold is installed. It links a small shared object in a third of ld's time.

        No key depends on this flag, because the linked object behaves the same with either linker.
        """
        return ["-fuse-ld=gold"] if self._which("ld.gold") else []

    def binutil(self, name: str) -> str:
        """Return the path of a program in the C++ compiler's binutils.

        Raises
        ------
        ToolchainError
            If there is no such program.
        """
        found = _output([self.cxx.path, f"-print-prog-name={name}"]).strip()
        if path := self._which(found):
            return str(path)
        raise ToolchainError(f"no {name}; install it: {system_install('binutils')}")

    def unique_symbols(self, path: str) -> list[str]:
        """Return an object file's unique symbols. A process has each only once, even if several libraries define it."""
        listed = _output([self.binutil("nm"), "--format=posix", path])
        return [line.split()[0] for line in listed.splitlines() if line.split()[1] == "u"]

    def check_python_headers(self) -> Path:
        """Check that Python's headers are installed, and return the directory of ``Python.h``.

        Raises
        ------
        ToolchainError
            If the headers of this Python are not installed.
        """
        import sysconfig

        directory = Path(sysconfig.get_path("include"))
        if not (directory / "Python.h").is_file():
            raise ToolchainError(
                f"no Python.h in {directory}; install the headers of Python: {_install_headers(directory)}"
            )
        return directory

    def check_arch(self, target: Target) -> None:
        """Reject an architecture that this nvcc does not support.

        Raises
        ------
        ToolchainError
            If nvcc does not support the architecture. The text lists the supported ones.
        """
        if target.arch not in self.gpu_archs:
            known = ", ".join(sorted(self.gpu_archs, key=lambda arch: (int(arch.rstrip("af")), arch)))
            raise ToolchainError(f"{self.nvcc.path} cannot compile for {target.name}; it supports {known}")

    def compiler(self, target: Target) -> Tool:
        return self.cxx if target.is_cpu else self.nvcc

    def command(
        self, target: Target, flags: Flags, source: Path, output: Path, depfile: Path, objects: Sequence[Path] = ()
    ) -> list[str]:
        """Return the command line that compiles a launcher. Libraries come last, as linkers require.

        Parameters
        ----------
        objects : sequence of Path
            Compiled objects to link with the launcher.
        """
        language = ["-x", "c++"] if target.is_cpu else ["-x", "cu"]
        files = ["-MD", "-MF", str(depfile), *language, str(source), "-o", str(output)]
        # -x applies to all files after it, so it has to be reset before a library, which is not a source
        reset = ["-x", "none"] if target.is_cpu and (objects or flags.link or flags.packages) else []
        # nvcc from PyPI searches lib64 for its libraries, but they are in lib
        tools = [] if target.is_cpu else [f"-ccbin={self.cxx.path}", f"-L{self.cuda_root / 'lib'}"]
        # Make the linker list the files that it reads. They become dependencies, because a library may be replaced.
        trace = [f"-{'Wl,' if target.is_cpu else 'Xlinker='}-t"] if flags.links else []
        linking = self.quick_linking if target.is_cpu and objects and not flags.link else []
        return [
            str(self.compiler(target).path),
            *flags.compile,
            *tools,
            *flags.paths,
            *linking,
            *trace,
            *files,
            *reset,
            *map(str, objects),
            *flags.link,
            *flags.packages,
        ]

    def versions(self, target: Target | None = None, nvrtc: Nvrtc | None = None) -> tuple[tuple[str, str], ...] | None:
        """Return the versions of the compilers for a module or a launcher, or None if a compiler is missing.

        Parameters
        ----------
        nvrtc : Nvrtc, optional
            The compiler for the device code, if it is not the target's usual compiler. It needs no C++ compiler.
        """
        try:
            if nvrtc is not None:
                return (("compiler", f"NVRTC {nvrtc.version}"),)
            versions = {"cxx": self.cxx.version}
            if target is not None:
                versions["compiler"] = self.compiler(target).version
        except ToolchainError:
            return None
        return tuple(sorted(versions.items()))

    def searched_paths(self, target: Target | None = None) -> list[str]:
        """Return all paths whose appearance, removal or change could make the search find another compiler."""
        if given := _compiler_alone(self._settings.cxx):
            found = self._searched_paths(given)
        else:
            found = cxx_search.searched(self._settings.search_path, self._cxx_search.find().path)
        if target is not None and not target.is_cpu:
            from tkjit.compile import nvrtc

            found += self._searched_paths("nvcc")
            found += [str(path) for _, path in self._nvcc_candidates() if path is not None]
            found += map(str, nvrtc.candidates(nvrtc.directories(self._settings.cuda_home, self.cuda_root_or_none)))
        return found

    def _searched_paths(self, name: str) -> list[str]:
        """Return the paths that a search for a program tries, up to the path at which it finds the program."""
        tried = []
        end = self._which(name)
        for directory in self._settings.search_path.split(os.pathsep):
            tried.append(str(Path(directory, name)))
            if end is not None and Path(tried[-1]) == end:
                break
        return tried

    def anchors(self, target: Target | None = None) -> dict[str, Path]:
        """Return directories that may be elsewhere on another machine, by the names that cache keys contain instead."""
        anchors = {"tkjit": PACKAGE}
        if target is not None and not target.is_cpu:
            with suppress(ToolchainError):
                anchors["toolkit"] = self.cuda_root
        return anchors

    def _which(self, name: str) -> Path | None:
        import shutil  # not needed in a warm process that has not imported torch

        found = shutil.which(name, path=self._settings.search_path)
        return Path(found) if found else None


def address_sanitizer(cxx: Tool) -> Path | None:
    """Return the runtime library of the C++ compiler's AddressSanitizer, or None if it is not installed."""
    is_clang = "clang" in cxx.version
    name = f"libclang_rt.asan-{os.uname().machine}.a" if is_clang else "libasan.so"
    found = Path(_output([cxx.path, f"-print-file-name={name}"]).strip())
    if found.is_absolute():
        return found
    directory = Path(_output([cxx.path, "-print-runtime-dir"]).strip()) if is_clang else found
    return directory / name if (directory / name).is_file() else None


def install_address_sanitizer(version: str) -> str:
    """Return the command that installs the AddressSanitizer for a compiler with a given version."""
    is_debians = "Debian" in version or "Ubuntu" in version
    # the distributor's text in brackets may also contain versions
    found = re.search(r"(?:^|[ )])(\d+)\.\d+", re.sub(r"\([^)]*\)", "", version))
    if is_debians and found:
        kind = "libclang-rt-{}-dev" if "clang" in version else "libgcc-{}-dev"
        return f"apt-get install {kind.format(found[1])}"
    return "install the compiler's AddressSanitizer, libasan or compiler-rt, with your system's package manager"


def _install_headers(directory: Path) -> str:
    """Return how to install the running Python's headers. A distribution's package is only for its own Python."""
    if directory.is_relative_to("/usr/include"):
        return system_install(f"{directory.name}-dev" if system_install("").startswith("apt-get") else "python3-dev")
    return f"reinstall {sys.executable} with them"


def _compiler_alone(cxx: str | None) -> str | None:
    """Remove a compiler cache from the front of ``CXX``, because it would be useless in addition to tkjit's cache."""
    words = [word for word in (cxx or "").split() if Path(word).name not in ("ccache", "sccache", "distcc")]
    if len(words) > 1:
        raise ToolchainError(f"CXX={cxx!r} has arguments; set it to the compiler alone, and put flags in the spec")
    return words[0] if words else None


def _version_output(compiler: Path) -> str:
    """Return the version that a compiler prints."""
    return _version_text(_output([compiler, "--version"]))


def _no_compiler(rejected: list[Rejected]) -> str:
    install = f"install one: {system_install('g++')}"
    if not rejected:
        return f"no C++ compiler; {install}"
    listed = "".join(f"\n  {one}" for one in rejected)
    return f"no C++ compiler on PATH can be used; {install}{listed}"


def _warn_of_rejected(first: Rejected, taken: Path) -> None:
    import warnings

    warnings.warn(
        f"{first}; tkjit compiles with {taken} instead (set CXX to choose another compiler)",
        TkjitWarning,
        stacklevel=2,
    )


def _toolkit_root(nvcc: Path) -> str:
    """Return the toolkit's root, which nvcc prints in a dry run."""
    import subprocess

    command = [str(nvcc), "--dryrun", "-x", "cu", "-c", os.devnull, "-o", os.devnull]
    printed = subprocess.run(command, capture_output=True, text=True).stderr
    top = re.search(r"^#\$ TOP=(.*)$", printed, re.MULTILINE)
    return os.path.normpath(top[1].strip()) if top else str(nvcc.parent.parent)


@cache
def _from_pypi(tool: str) -> Path | None:
    from cuda.pathfinder import find_nvidia_binary_utility

    found = find_nvidia_binary_utility(tool)
    return Path(found) if found else None


def _version_text(printed: str) -> str:
    """Return the line that distinguishes one build of a compiler from another."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    release = [line for line in lines if re.search(r"release .* V\d", line)]  # nvcc's fourth line
    return (release or lines or ["unknown"])[0]


def _output(command: list[Path | str]) -> str:
    import subprocess  # not needed in a warm process

    try:
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolchainError(f"{command[0]} does not run: {error}") from None
