"""Reads and writes JSON files that contain a digest of their own content."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tkjit.errors import TkjitError
from tkjit.system import files

_NO_DIGEST = '"digest": ""'


class DamagedError(TkjitError):
    """A cache file has changed since it was written. Lookups treat this as a miss; the rebuild sets the entry aside."""


def write(path: Path, value: Mapping[str, Any]) -> None:
    text = files.to_json({"digest": "", **value}, indent=1)
    digest = files.sha256_of(text.encode())
    files.write(path, text.replace(_NO_DIGEST, f'"digest": "{digest}"', 1))


def read(path: Path) -> dict[str, Any]:
    """Return the value that was written to a file.

    Raises
    ------
    DamagedError
        If the file is unreadable, or any byte of it has changed.
    """
    try:
        text = files.read(path, follow=True).decode()
        value = dict(files.from_json(text))
        digest = value.pop("digest")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path} cannot be read: {error!r}") from None
    unsigned = text.replace(f'"digest": "{digest}"', _NO_DIGEST, 1)
    if digest != files.sha256_of(unsigned.encode()):
        raise DamagedError(f"{path} has changed since it was written")
    return value
