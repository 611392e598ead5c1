"""Records the variants of a run, a line of JSON for each, so that another machine can build them ahead of time."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from tkjit.compile.targets import Target
from tkjit.errors import CacheError
from tkjit.spec import Spec, Variant
from tkjit.system import files


@dataclass(frozen=True)
class Used:
    """A variant that was used.

    Parameters
    ----------
    module : str
        The Python module that defines the kernel.
    overload : int
        The number of the kernel's overload.
    """

    name: str
    module: str
    overload: int
    variant: tuple[tuple[str, str | int], ...]
    arch: str
    cpu_level: str = ""

    @property
    def target(self) -> Target:
        return Target(self.arch, self.cpu_level)


def record(path: Path, spec: Spec, overload: int, variant: Variant, target: Target) -> None:
    """Add a line to a file; other processes may add lines too.

    Raises
    ------
    CacheError
        If it cannot be written.
    """
    used = Used(spec.name, spec.module, overload, variant.values, target.arch, target.cpu_level)
    line = json.dumps(asdict(used)) + "\n"
    try:
        descriptor = files.append(path, 0o664)
        try:
            os.write(descriptor, line.encode())  # one write: lines of several processes do not mix
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CacheError(f"cannot write down what is used in {path} (TKJIT_RECORD): {error.strerror}") from None


def read_record(path: Path) -> list[Used]:
    """The used variants that a file lists, each variant once.

    Raises
    ------
    CacheError
        If the file cannot be read, or a line is no such record.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CacheError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    found: dict[Used, None] = {}
    for number, line in enumerate(lines, 1):
        try:
            content = files.from_json(line)
            content["variant"] = tuple((str(name), value) for name, value in content["variant"])
            found[Used(**content)] = None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise CacheError(f"{path}:{number} is not a line that TKJIT_RECORD or warmup --record writes") from None
    return list(found)
