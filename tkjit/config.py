"""Settings: the only place that reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


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
    """

    cache_root: Path
    kernel_path: tuple[Path, ...] = ()
    cuda_home: Path | None = None
    cxx: str | None = None
    search_path: str = os.defpath

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the environment, which defaults to the process's own."""
        environ = os.environ if environ is None else environ
        cuda_home = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
        return cls(
            cache_root=_cache_root(environ.get("TKJIT_CACHE")),
            kernel_path=tuple(
                Path(p).expanduser() for p in environ.get("TKJIT_KERNEL_PATH", "").split(os.pathsep) if p
            ),
            cuda_home=Path(cuda_home) if cuda_home else None,
            cxx=environ.get("CXX") or None,
            search_path=environ.get("PATH", os.defpath),
        )


def _cache_root(given: str | None) -> Path:
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("tkjit", appauthor=False))
