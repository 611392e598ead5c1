"""Records the extensions that a run loads, so that they can be compiled ahead of time."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tkjit.compile.targets import Target
from tkjit.extensions.sources import CPU, CUDA_SYMBOLS, Extension, Source
from tkjit.loader.record import append, read_lines


@dataclass(frozen=True)
class Loaded:
    """An extension, and how it was loaded.

    Parameters
    ----------
    is_python_module : bool
        False if it was loaded only for the operators that it registers.
    """

    extension: Extension
    is_python_module: bool = True

    def on(self, target: Target) -> Loaded:
        """Return the same extension with its CUDA sources compiled for another target."""
        if not self.extension.archs:  # it has no CUDA sources
            return self
        archs = (CPU,) if target.is_cpu else (target.arch,)
        return replace(self, extension=replace(self.extension, archs=archs, model=target.model))


def record_extension(path: Path, loaded: Loaded) -> None:
    """Append a line to a file. Other processes may append lines at the same time.

    Raises
    ------
    CacheError
        If the file cannot be written.
    """
    extension = loaded.extension
    content = asdict(extension) | {
        "sources": [_content_of(source) for source in extension.sources],
        "include_dirs": [*map(str, extension.include_dirs)],
    }
    append(path, {"extension": content, "is_python_module": loaded.is_python_module})


def _content_of(source: Source) -> dict[str, Any] | None:
    """Return a source's fields, or None for tkjit's own source, because its path differs between machines."""
    return (
        None
        if source == CUDA_SYMBOLS
        else {**asdict(source), "directory": str(source.directory) if source.directory else None}
    )


def read_extensions(path: Path) -> list[Loaded]:
    """Return the extensions that a file lists, each once.

    Raises
    ------
    CacheError
        If the file cannot be read, or a line is not a record.
    """
    return list(dict.fromkeys(read_lines(path, _parse)))


def _parse(content: dict[str, Any]) -> Loaded | None:
    if "extension" not in content:
        return None
    stored = content["extension"]
    sources = [CUDA_SYMBOLS if one is None else _source_of(**one) for one in stored.pop("sources")]
    stored["include_dirs"] = [Path(directory) for directory in stored["include_dirs"]]
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    return Loaded(Extension(sources=tuple(sources), **fields), bool(content["is_python_module"]))


def _source_of(name: str, directory: str | None, text: str) -> Source:
    return Source(name, Path(directory) if directory else None, text)
