"""Remembers that a server did not answer, for all processes of a cache; and warns of what a remote cache does."""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from contextlib import suppress
from pathlib import Path

from tkjit.config import RemoteSettings
from tkjit.errors import TkjitWarning
from tkjit.system import files

FORGET_S = 60.0  # after which a server that was unreachable is asked again


class Warnings:
    """Warns, once of each kind."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def warn(self, kind: str, text: str) -> None:
        if kind not in self._given:
            self._given.add(kind)
            warnings.warn(f"remote cache: {text}", TkjitWarning, stacklevel=3)

    def forget(self, kind: str) -> None:
        self._given.discard(kind)


class Outage:
    """The last time that a server did not answer.

    Parameters
    ----------
    directory : Path
        A directory of the cache, where its other processes see it.
    """

    def __init__(self, url: str, directory: Path, warnings: Warnings, *, shared: bool) -> None:
        self._shown = RemoteSettings(url).shown
        self._memo = directory / f"unreachable-{hashlib.sha256(url.encode()).hexdigest()[:16]}"
        self._warnings = warnings
        self._shared = shared
        self._since = -math.inf  # by the monotonic clock, where the memo cannot be written

    def is_recent(self) -> bool:
        """Whether a process of this cache has found the server unreachable in the last minute; it warns of that."""
        age_s = time.monotonic() - self._since
        with suppress(OSError):
            age_s = min(age_s, abs(time.time() - self._memo.stat().st_mtime))
        if age_s >= FORGET_S:
            return False
        self._warnings.warn("outage", f"{self._shown} is not asked: it did not answer {age_s:.0f} s ago")
        return True

    def begin(self, why: str) -> None:
        """Remember that the server does not answer, and warn."""
        self._since = time.monotonic()
        with suppress(OSError):
            files.write(self._memo, why + "\n", shared=self._shared)
        self._warnings.forget("outage")
        self._warnings.warn(
            "outage",
            f"{self._shown} does not answer: {why}; what is missing is compiled here, and it is not asked again for "
            f"{FORGET_S:.0f} s",
        )
