"""The settings of tkjit. Only this module reads environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tkjit.errors import CacheError

_COMPILER_VARIABLES = (
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "C_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CCC_OVERRIDE_OPTIONS",
    "NVCC_APPEND_FLAGS",
    "NVCC_PREPEND_FLAGS",
)
# the header libraries that specs can name (tkjit/spec/headers.py)
_HEADER_LIBRARIES = ("thunderkittens", "cutlass", "curand")
COMPILERS = ("nvcc", "nvrtc")  # for device code
BINDINGS = ("pybind11",)  # in addition to tkjit's own
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class RemoteSettings:
    """The settings of a cache on a server.

    Parameters
    ----------
    url : str
        ``TKJIT_CACHE_REMOTE``: any URL that fsspec can read, such as ``s3://bucket/kernels``; empty for no server.
    key : Path or None
        ``TKJIT_CACHE_REMOTE_KEY``: the private Ed25519 key with which a writer signs entries.
    trust : Path or None
        ``TKJIT_CACHE_REMOTE_TRUST``: a file with one public key per line; only entries signed by one of them are used.
    unsigned : bool
        ``TKJIT_CACHE_REMOTE_UNSIGNED``: whether unsigned entries are used.
    """

    url: str = ""
    key: Path | None = None
    trust: Path | None = None
    unsigned: bool = False

    @property
    def shown(self) -> str:
        """The URL without a password, for messages."""
        from urllib.parse import urlsplit

        host = urlsplit(self.url).netloc
        return self.url.replace(host, host.rpartition("@")[2], 1) if "@" in host else self.url

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> RemoteSettings:
        key, trust = environ.get("TKJIT_CACHE_REMOTE_KEY"), environ.get("TKJIT_CACHE_REMOTE_TRUST")
        unsigned = environ.get("TKJIT_CACHE_REMOTE_UNSIGNED")
        return cls(
            url=environ.get("TKJIT_CACHE_REMOTE", "").rstrip("/"),
            key=_expanded(key).absolute() if key else None,
            trust=_expanded(trust).absolute() if trust else None,
            unsigned=_flag("TKJIT_CACHE_REMOTE_UNSIGNED", unsigned, default=False),
        )


@dataclass(frozen=True)
class Settings:
    """The settings of a process, read once and passed on as a value.

    Parameters
    ----------
    cache_root : Path
        ``TKJIT_CACHE``: the directory of compiled kernels; by default ``tkjit`` in the user's cache directory.
    kernel_path : tuple of Path
        ``TKJIT_KERNEL_PATH``: directories of spec files, separated by ``:``, that are searched before the bundled
        kernels.
    cuda_home : Path or None
        ``CUDA_HOME`` or ``CUDA_PATH``: the CUDA toolkit. By default that of the ``nvcc`` on ``PATH``, in
        ``/usr/local/cuda`` or from PyPI.
    cxx : str or None
        ``CXX``: the C++ compiler. By default the first usable one on ``PATH`` of ``g++``, ``c++``, ``clang++`` and
        versioned names, such as ``g++-14``.
    search_path : str
        ``PATH``, which is searched for compilers.
    compiler_environment : str
        The variables that compilers read themselves, such as ``CPATH``. They are settings because they change the
        compiled code.
    header_path : tuple of Path
        The directories in ``CPATH`` and ``CPLUS_INCLUDE_PATH``, in which compilers look for headers.
    cache_layers : tuple of Path
        ``TKJIT_CACHE_READONLY``: caches and bundles, separated by ``:``, that are searched before the cache and never
        written to.
    cache_shared : bool
        ``TKJIT_CACHE_SHARED``: whether to trust everyone who can write to the cache, and to give new files the
        directory's permissions. By default, a cache that other users can write to is rejected.
    cache_limit_bytes : int or None
        ``TKJIT_CACHE_LIMIT``, such as ``10G``: if the cache grows larger, the least recently used entries are removed.
    remote : RemoteSettings
        The cache on a server that is asked before anything is compiled.
    jit : bool
        ``TKJIT_JIT``: whether anything may be compiled. With ``0``, a kernel that is not in the cache is an error that
        names the command to compile it.
    record : Path or None
        ``TKJIT_RECORD``: the file that records what a process uses, for ``warmup --from-file``.
    tune : bool
        ``TKJIT_TUNE``: whether the first call of a variant with ``tune=`` tunes it, at the spec's ``sizes=``, if no
        choice is stored.
    sim_debug : bool
        ``TKJIT_SIM_DEBUG``: whether CPU kernels are compiled for a debugger, without optimization; ``tkjit debug`` sets
        it.
    compiler : str
        ``TKJIT_COMPILER``: ``nvcc`` or ``nvrtc`` for device code. By default NVRTC, if it is installed and the source
        allows it.
    compiler_server : bool
        ``TKJIT_COMPILER_SERVER``: whether processes that have compiled with NVRTC stay for the next compilation.
    binding : str
        ``TKJIT_BINDING``: ``pybind11``, to call kernels through pybind11 instead of tkjit's own glue.
    model_arch : str
        ``TKJIT_MODEL_ARCH``, such as ``80``: the GPU architecture that the simulator imitates; empty for the newest.
    sim_numerics : str
        ``TKJIT_SIM_NUMERICS``: ``hardware`` makes simulated tensor cores add as a GPU's do, bit for bit and slowly.
    sim_trace : str
        ``TKJIT_SIM_TRACE``: where the simulator logs barriers and copies: ``1`` for standard error, or a file.
    header_roots : tuple of (str, Path)
        ``THUNDERKITTENS_ROOT``, ``CUTLASS_ROOT``, ``CURAND_ROOT``: directories of header libraries. By default those
        that ``tkjit headers add`` installed.
    cuda_archs : str
        ``TORCH_CUDA_ARCH_LIST``: the GPU architectures of extensions, such as ``8.0;9.0a``; by default that of the
        current GPU.
    sync : bool
        ``TKJIT_SYNC``: whether each launch waits for its kernel, so that a failing kernel raises at its own call.
    quiet : bool
        ``TKJIT_QUIET``: whether builds print no progress.
    """

    cache_root: Path
    kernel_path: tuple[Path, ...] = ()
    cuda_home: Path | None = None
    cxx: str | None = None
    search_path: str = os.defpath
    compiler_environment: str = ""
    header_path: tuple[Path, ...] = ()
    cache_layers: tuple[Path, ...] = ()
    cache_shared: bool = False
    cache_limit_bytes: int | None = None
    remote: RemoteSettings = RemoteSettings()
    jit: bool = True
    record: Path | None = None
    tune: bool = False
    sim_debug: bool = False
    compiler: str = ""
    compiler_server: bool = True
    binding: str = ""
    model_arch: str = ""
    sim_numerics: str = ""  # only checked here, because the simulator reads the variable itself
    sim_trace: str = ""
    header_roots: tuple[tuple[str, Path], ...] = ()
    cuda_archs: str = ""
    sync: bool = False
    quiet: bool = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the settings from a mapping, by default the environment of the process."""
        environ = os.environ if environ is None else environ
        cuda_home = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
        of_compilers = [f"{name}={environ[name]}" for name in _COMPILER_VARIABLES if name in environ]
        header_path = os.pathsep.join(environ.get(name, "") for name in ("CPATH", "CPLUS_INCLUDE_PATH"))
        limit, record = environ.get("TKJIT_CACHE_LIMIT"), environ.get("TKJIT_RECORD")
        return cls(
            cache_root=_cache_root(environ.get("TKJIT_CACHE"), environ.get("XDG_CACHE_HOME")),
            kernel_path=_paths(environ.get("TKJIT_KERNEL_PATH", "")),
            header_path=_paths(header_path),
            cache_layers=tuple(path.absolute() for path in _paths(environ.get("TKJIT_CACHE_READONLY", ""))),
            cache_shared=_flag("TKJIT_CACHE_SHARED", environ.get("TKJIT_CACHE_SHARED"), default=False),
            cache_limit_bytes=size_of_text(limit, "TKJIT_CACHE_LIMIT") if limit else None,
            remote=RemoteSettings.from_environment(environ),
            jit=_flag("TKJIT_JIT", environ.get("TKJIT_JIT"), default=True),
            record=_expanded(record).absolute() if record else None,
            tune=_flag("TKJIT_TUNE", environ.get("TKJIT_TUNE"), default=False),
            sim_debug=_flag("TKJIT_SIM_DEBUG", environ.get("TKJIT_SIM_DEBUG"), default=False),
            compiler=_one_of("TKJIT_COMPILER", environ.get("TKJIT_COMPILER", ""), COMPILERS),
            compiler_server=_flag("TKJIT_COMPILER_SERVER", environ.get("TKJIT_COMPILER_SERVER"), default=True),
            binding=_one_of("TKJIT_BINDING", environ.get("TKJIT_BINDING", ""), BINDINGS),
            model_arch=environ.get("TKJIT_MODEL_ARCH", "").removeprefix("sm_"),
            sim_numerics=_one_of("TKJIT_SIM_NUMERICS", environ.get("TKJIT_SIM_NUMERICS", ""), ("hardware", "float32")),
            sim_trace=_trace(environ.get("TKJIT_SIM_TRACE", "")),
            header_roots=tuple(
                (name, _paths(directory)[0].absolute())
                for name in _HEADER_LIBRARIES
                if (directory := environ.get(f"{name.upper()}_ROOT"))
            ),
            cuda_archs=environ.get("TORCH_CUDA_ARCH_LIST", "").strip(),
            sync=_flag("TKJIT_SYNC", environ.get("TKJIT_SYNC"), default=False),
            quiet=_flag("TKJIT_QUIET", environ.get("TKJIT_QUIET"), default=False),
            cuda_home=Path(cuda_home) if cuda_home else None,
            cxx=environ.get("CXX") or None,
            search_path=environ.get("PATH", os.defpath),
            compiler_environment="\n".join(of_compilers),
        )


def is_completing() -> bool:
    """Whether a shell is running the command line to complete a word."""
    return "_ARGCOMPLETE" in os.environ


def environment_with(**changes: str) -> dict[str, str]:
    """The environment of the process with some variables changed, for a child process."""
    return {**os.environ, **changes}


def _paths(text: str) -> tuple[Path, ...]:
    if not text:
        return ()
    try:
        return tuple(_expanded(path) for path in text.split(os.pathsep) if path)
    except RuntimeError as error:  # ~nobody
        raise CacheError(f"{text}: {error}") from None


@contextmanager
def model_chosen(arch: str) -> Iterator[None]:
    """Set the GPU architecture of the simulator, for this process and its children, while the context is open."""
    if not arch:
        yield
        return
    before = os.environ.get("TKJIT_MODEL_ARCH", "")
    os.environ["TKJIT_MODEL_ARCH"] = arch
    try:
        yield
    finally:
        os.environ["TKJIT_MODEL_ARCH"] = before  # an empty value counts as unset


def _one_of(name: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in ("", *choices):
        raise CacheError(f"{name} is {text!r}; expected {' or '.join(choices)}")
    return text


def _trace(text: str) -> str:
    """Return an empty string, ``1`` or an absolute path."""
    if text in ("", "0"):
        return ""
    return text if text == "1" else str(_expanded(text).absolute())


def _flag(name: str, text: str | None, *, default: bool) -> bool:
    if not text:
        return default
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise CacheError(f"{name} is {text!r}; expected 1 or 0")


def size_of_text(text: str, what: str) -> int:
    """Convert ``500M``, ``10G``, ``1.5T`` or a plain number to bytes. The units are powers of 1024.

    Raises
    ------
    CacheError
        If the text is not a size.
    """
    number, unit = text.strip().upper().removesuffix("IB").removesuffix("B"), 1
    if number and number[-1] in _UNITS:
        number, unit = number[:-1], _UNITS[number[-1]]
    try:
        size = float(number) * unit
        if not 0 <= size < float("inf"):
            raise ValueError
    except ValueError:
        raise CacheError(f"{what}={text!r} is not a size; expected for example 500M or 10G") from None
    return int(size)


def _cache_root(given: str | None, xdg: str | None) -> Path:
    try:
        if given:
            return _expanded(given).absolute()
        if sys.platform == "linux":
            # the directory that platformdirs would return; importing it takes 2 ms
            base = xdg if xdg and os.path.isabs(xdg) else f"{_home()}/.cache"  # noqa: PTH117
            if not os.path.isabs(base):  # noqa: PTH117
                raise RuntimeError("the home directory is unknown")
            return Path(f"{base}/tkjit")
        import platformdirs

        return Path(platformdirs.user_cache_dir("tkjit", appauthor=False))
    except RuntimeError as error:  # no HOME, and no entry in the password file
        raise CacheError(f"no directory for the cache: {error}; set TKJIT_CACHE to an absolute path") from None


def _expanded(path: str) -> Path:
    """Replace ``~`` by the home directory."""
    return Path(_home() + path[1:] if path == "~" or path.startswith("~/") else path).expanduser()


def _home() -> str:
    """Return the home directory, from the password file if ``HOME`` is empty: ``expanduser`` would return ``/``."""
    if os.environ.get("HOME") != "":
        return os.path.expanduser("~")  # noqa: PTH111
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise RuntimeError("HOME is empty, and the user is unknown") from None
