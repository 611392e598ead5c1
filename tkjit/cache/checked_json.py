"""JSON that holds its own digest: a byte of it that has changed is seen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tkjit.errors import TkjitError
from tkjit.system import files

_NO_DIGEST = '"digest": ""'


class DamagedError(TkjitError):
    """What lies in the cache is not what was written; it is a miss, and is set aside when it is built again."""


def write(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps({"digest": "", **value}, indent=1)
    digest = hashlib.sha256(text.encode()).hexdigest()
    files.write(path, text.replace(_NO_DIGEST, f'"digest": "{digest}"', 1))


def read(path: Path) -> dict[str, Any]:
    """What was written, if each byte of the file is as it was.

    Raises
    ------
    DamagedError
    """
    try:
        text = files.read(path, follow=True).decode()
        value = dict(files.from_json(text))
        digest = value.pop("digest")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path} cannot be read: {error!r}") from None
    unsigned = text.replace(f'"digest": "{digest}"', _NO_DIGEST, 1)
    if digest != hashlib.sha256(unsigned.encode()).hexdigest():
        raise DamagedError(f"{path} has changed since it was written")
    return value
