"""Settings: the only place that reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tkjit.errors import CacheError

_COMPILER_VARIABLES = (
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "C_INCLUDE_PATH",
    "LIBRARY_PATH",
    "NVCC_APPEND_FLAGS",
    "NVCC_PREPEND_FLAGS",
)


@dataclass(frozen=True)
class Settings:
    """What a user or an administrator may set, read once and passed on as a value.

    Parameters
    ----------
    cache_root : Path
        ``TKJIT_CACHE``, or the user's cache directory as platformdirs knows it.
    kernel_path : tuple of Path
        ``TKJIT_KERNEL_PATH``: directories of specs, searched before the bundled ones.
    cuda_home : Path or None
        ``CUDA_HOME`` or ``CUDA_PATH``: the toolkit to use instead of searching for one.
    cxx : str or None
        ``CXX``: the C++ compiler to use instead of ``g++``.
    search_path : str
        ``PATH``, where compilers are looked up.
    compiler_environment : str
        The variables that compilers read by themselves, ``CPATH`` and the like, which change what they make.
    """

    cache_root: Path
    kernel_path: tuple[Path, ...] = ()
    cuda_home: Path | None = None
    cxx: str | None = None
    search_path: str = os.defpath
    compiler_environment: str = ""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the environment, which defaults to the process's own."""
        environ = os.environ if environ is None else environ
        cuda_home = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
        of_compilers = [f"{name}={environ[name]}" for name in _COMPILER_VARIABLES if name in environ]
        return cls(
            cache_root=_cache_root(environ.get("TKJIT_CACHE")),
            kernel_path=tuple(
                Path(p).expanduser() for p in environ.get("TKJIT_KERNEL_PATH", "").split(os.pathsep) if p
            ),
            cuda_home=Path(cuda_home) if cuda_home else None,
            cxx=environ.get("CXX") or None,
            search_path=environ.get("PATH", os.defpath),
            compiler_environment="\n".join(of_compilers),
        )


def _cache_root(given: str | None) -> Path:
    try:
        if given:
            return Path(given).expanduser().absolute()
        import platformdirs

        return Path(platformdirs.user_cache_dir("tkjit", appauthor=False))
    except RuntimeError as error:  # neither HOME nor an entry in the password file
        raise CacheError(f"no directory for the cache: {error}; set TKJIT_CACHE to an absolute path") from None
