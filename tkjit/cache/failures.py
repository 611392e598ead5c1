"""Stores the error of a failed build for the processes that waited for it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from tkjit.errors import CompileError
from tkjit.system import files

FAILURE = "failure.json"


def failure_of(directory: Path, awaited: frozenset[str]) -> CompileError | None:
    """Return the error that a builder left if this process waited for that builder; otherwise return None."""
    try:
        failure = files.read_json(directory / FAILURE)
        if failure.pop("token") not in awaited or not all(isinstance(text, str) for text in failure.values()):
            return None
        return CompileError(failure.pop("summary"), log_path=Path(failure.pop("log_path")), **failure)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def leave_failure(directory: Path, token: str, error: CompileError, *, shared: bool) -> None:
    """Write a build's error to a file. In a shared cache, the file gets the cache's permissions."""
    parts = {"summary": error.summary, "what": error.what, "log": error.log, "command": error.command}
    with suppress(OSError):
        text = json.dumps({"token": token, **parts, "log_path": str(error.log_path)})
        files.write(directory / FAILURE, text, shared=shared)
        if shared:
            files.copy_sharing_mode(directory, directory.parent)
            for path in files.below(directory, "*"):
                files.copy_sharing_mode(path, directory)
