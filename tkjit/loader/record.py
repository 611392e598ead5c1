"""Records the variants that a run uses as lines of JSON, so that another machine can build them ahead of time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tkjit.compile.targets import Target
from tkjit.errors import CacheError
from tkjit.spec import Spec, Variant
from tkjit.system import files

T = TypeVar("T")


@dataclass(frozen=True)
class Used:
    """A variant that a run has used.

    Parameters
    ----------
    module : str
        The Python module that defines the kernel.
    overload : int
        The index of the kernel's overload.
    """

    name: str
    module: str
    overload: int
    variant: tuple[tuple[str, str | int], ...]
    arch: str
    cpu_level: str = ""
    model: str = ""

    @property
    def target(self) -> Target:
        return Target(self.arch, self.cpu_level, self.model)

    def on(self, target: Target) -> Used:
        """Return the same variant for another target."""
        return replace(self, arch=target.arch, cpu_level=target.cpu_level, model=target.model)


def record(path: Path, spec: Spec, overload: int, variant: Variant, target: Target) -> None:
    """Append a variant to a file. Several processes may do so at the same time.

    Raises
    ------
    CacheError
        If the file cannot be written.
    """
    where = (target.arch, target.cpu_level, target.model)
    append(path, asdict(Used(spec.name, spec.module, overload, variant.values, *where)))


def append(path: Path, content: dict[str, Any]) -> None:
    """Append a line of JSON to a file. Several processes may do so at the same time.

    Raises
    ------
    CacheError
        If the file cannot be written.
    """
    line = json.dumps(content) + "\n"
    try:
        descriptor = files.append(path, 0o664)
        try:
            os.write(descriptor, line.encode())  # one write, so that lines of several processes are not interleaved
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CacheError(f"cannot write the record {path} (TKJIT_RECORD): {error.strerror}") from None


def read_record(path: Path) -> list[Used]:
    """Return the variants that a file lists, without duplicates.

    Raises
    ------
    CacheError
        If the file cannot be read, or a line is not a record.
    """
    return list(dict.fromkeys(read_lines(path, _parse)))


def _parse(content: dict[str, Any]) -> Used | None:
    if "headers" in content or "extension" in content:
        return None  # the line is a call to a bound library, or an extension
    content["variant"] = tuple((str(name), value) for name, value in content["variant"])
    return Used(**content)


def read_lines(path: Path, parse: Callable[[dict[str, Any]], T | None]) -> Iterator[T]:
    """Yield the parsed lines of a file. Skip lines of another kind, for which ``parse`` returns None.

    Raises
    ------
    CacheError
        If the file cannot be read, or a line is not a record.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CacheError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate(lines, 1):
        try:
            found = parse(files.from_json(line))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise CacheError(f"{path}:{number} is not a line that TKJIT_RECORD or warmup --record writes") from None
        if found is not None:
            yield found
