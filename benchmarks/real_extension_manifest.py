"""The manifest of ``benchmarks.real_extensions``: how repositories build their torch extensions.

An extension has these fields, of which the first three are required:

========================  ====================================================================================
``name``                  unique in the manifest
``repository``            ``owner/name`` on GitHub; ``[repositories]`` has its commit
``sources``               paths or patterns relative to the repository; ``!`` before a pattern excludes files
``module``                the name of the Python module, if it is not ``name``
``include_dirs``          relative to the repository
``needs``                 directories of other repositories: ``owner/name/include``
``defines``               for C++ and CUDA: ``WITH_CUDA``, ``LIMIT=3``
``cflags``                like ``cuda_flags`` and ``ldflags``: the flags that the repository passes
``arch``                  as in ``TORCH_CUDA_ARCH_LIST``, if it is not 9.0a
``operators``             true: it registers operators, and is loaded with ``is_python_module=False``
``functions``             passes the sources to ``load_inline``, with ``declarations`` as its C++ source
``torch_fails``           why the current torch cannot build it
========================  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FIELDS = {
    *("name", "module", "repository", "sources", "include_dirs", "needs", "defines", "cflags", "cuda_flags"),
    *("ldflags", "arch", "operators", "functions", "declarations", "torch_fails"),
}


@dataclass(frozen=True)
class RealExtension:
    """One extension of a repository.

    Parameters
    ----------
    name : str
        Its name in the manifest, which is unique.
    module : str
        The name of the Python module.
    repository : str
        ``owner/name`` on GitHub.
    sources, include_dirs : tuple of Path
        Absolute paths.
    cflags, cuda_flags, ldflags : tuple of str
        The flags that the repository passes.
    arch : str
        As in ``TORCH_CUDA_ARCH_LIST``.
    operators : bool
        Whether it is loaded for the operators that it registers, with ``is_python_module=False``.
    functions : tuple of str
        If any, the functions that ``load_inline`` binds; the sources are passed to it as texts.
    declarations : str
        The C++ source of ``load_inline``.
    torch_fails : str
        Why the current torch cannot build it; empty if it can.
    """

    name: str
    module: str
    repository: str
    sources: tuple[Path, ...]
    include_dirs: tuple[Path, ...]
    cflags: tuple[str, ...]
    cuda_flags: tuple[str, ...]
    ldflags: tuple[str, ...]
    arch: str
    operators: bool
    functions: tuple[str, ...]
    declarations: str
    torch_fails: str

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``torch.utils.cpp_extension.load``, or of ``load_inline``."""
        sources: dict[str, Any] = {"sources": list(map(str, self.sources))}
        if self.functions:
            texts = [path.read_text() for path in self.sources]
            sources = {"cuda_sources": texts, "cpp_sources": self.declarations, "functions": list(self.functions)}
        return {
            "name": self.module,
            **sources,
            "extra_cflags": list(self.cflags),
            "extra_cuda_cflags": list(self.cuda_flags),
            "extra_ldflags": list(self.ldflags),
            "extra_include_paths": list(map(str, self.include_dirs)),
            "is_python_module": not self.operators,
        }


def read_manifest(path: Path, directory: Path, headers: Sequence[Path] = ()) -> list[RealExtension]:
    """Read the extensions of a manifest.

    Parameters
    ----------
    directory : Path
        The directory of the checkouts, which are named ``owner+name``.
    headers : sequence of Path
        Directories of headers that every extension may include.

    Raises
    ------
    ValueError
        If a name is listed twice, a field is unknown, or a repository has no commit.
    """
    import tomllib  # type: ignore[import-not-found]  # Python 3.11

    manifest = tomllib.loads(path.read_text())
    extensions: dict[str, RealExtension] = {}
    for fields in manifest["extension"]:
        if unknown := set(fields) - _FIELDS:
            raise ValueError(f"{path}: {fields['name']}: unknown field {', '.join(sorted(unknown))}")
        if fields["name"] in extensions:
            raise ValueError(f"{path}: {fields['name']} is listed twice")
        if fields["repository"] not in manifest["repositories"]:
            raise ValueError(f"{path}: {fields['name']}: no commit for {fields['repository']}")
        extensions[fields["name"]] = _extension(fields, directory.absolute(), headers)
    return list(extensions.values())


def _extension(fields: Mapping[str, Any], directory: Path, headers: Sequence[Path]) -> RealExtension:
    root = _checkout(directory, fields["repository"])
    include_dirs = [root / name for name in fields.get("include_dirs", [])]
    include_dirs += [_checkout(directory, needed) for needed in fields.get("needs", [])]
    defines = [f"-D{name}" for name in fields.get("defines", [])]
    return RealExtension(
        name=fields["name"],
        module=fields.get("module", fields["name"]),
        repository=fields["repository"],
        sources=_sources(root, fields["sources"]),
        include_dirs=(*include_dirs, *(each.absolute() for each in headers)),
        cflags=(*defines, *fields.get("cflags", [])),
        cuda_flags=(*defines, *fields.get("cuda_flags", [])),
        ldflags=tuple(fields.get("ldflags", [])),
        arch=fields.get("arch", "9.0a"),
        operators=fields.get("operators", False),
        functions=tuple(fields.get("functions", [])),
        declarations=fields.get("declarations", ""),
        torch_fails=fields.get("torch_fails", ""),
    )


def _checkout(directory: Path, name: str) -> Path:
    """The directory of a repository, or of a part of it: ``NVIDIA/cutlass/include``."""
    owner, repository, *parts = name.split("/")
    return directory.joinpath(f"{owner}+{repository}", *parts)


def _sources(root: Path, patterns: Sequence[str]) -> tuple[Path, ...]:
    """The files that match the patterns; ``!`` before a pattern excludes its files."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        if pattern.startswith("!"):
            found = {path: None for path in found if path not in set(root.glob(pattern[1:]))}
        else:
            found.update(dict.fromkeys(sorted(root.glob(pattern))))
    return tuple(found)
