"""Lets a ``pyproject.toml`` describe extensions, so that a package needs no ``setup.py``.

If tkjit is installed in a build's environment, setuptools calls ``add_extensions`` through the entry point
``setuptools.finalize_distribution_options``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit.errors import ArgumentError

if TYPE_CHECKING:
    from setuptools import Distribution

    from tkjit.extensions.build_ext import TorchExtension

_FILE = Path("pyproject.toml")
# Maps the keys of a table to the parameters of CUDAExtension that they set.
_KEYS = {
    "include-dirs": "include_dirs",
    "library-dirs": "library_dirs",
    "libraries": "libraries",
    "link-flags": "extra_link_args",
}


def add_extensions(distribution: Distribution) -> None:
    """Add the extensions of ``[[tool.tkjit.extension]]`` to a distribution, unless an earlier call has added them.

    Raises
    ------
    ArgumentError
        If a table has an unknown key, or no name or sources, or if a pattern matches no file.
    """
    if not _FILE.is_file() or b"tool.tkjit" not in _FILE.read_bytes():
        return
    tables = _read(_FILE).get("tool", {}).get("tkjit", {}).get("extension", [])
    if not tables:
        return
    from tkjit.extensions.build_ext import BuildExtension

    known = [*(distribution.ext_modules or ())]
    names = {each.name for each in known}
    distribution.ext_modules = known + [new for new in map(_extension_of, tables) if new.name not in names]
    distribution.cmdclass.setdefault("build_ext", BuildExtension)


def _read(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found]
    content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return content


def _extension_of(table: Mapping[str, Any]) -> TorchExtension:
    from tkjit.extensions.build_ext import CUDAExtension

    name, patterns = table.get("name", ""), table.get("sources", [])
    known = {"name", "sources", "define-macros", "cxx-flags", "nvcc-flags", *_KEYS}
    if unknown := sorted(table.keys() - known):
        raise ArgumentError(f"{_FILE}: unknown key {unknown[0]} in [[tool.tkjit.extension]]; expected {sorted(known)}")
    if not name or not patterns:
        raise ArgumentError(f"{_FILE}: [[tool.tkjit.extension]] needs a name and sources")
    sources = []
    for pattern in patterns:
        found = sorted(map(str, Path().glob(pattern)))
        if not found:
            raise ArgumentError(f"{_FILE}: {name}: no file matches {pattern}")
        sources += found
    return CUDAExtension(
        name,
        sources,
        define_macros=[(macro, str(value)) for macro, value in table.get("define-macros", {}).items()],
        extra_compile_args={"cxx": table.get("cxx-flags", []), "nvcc": table.get("nvcc-flags", [])},
        **{parameter: table[key] for key, parameter in _KEYS.items() if key in table},
    )
