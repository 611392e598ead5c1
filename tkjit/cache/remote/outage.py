"""Remembers, for all processes that use a cache, that a server did not answer. Also issues the remote's warnings."""

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

FORGET_S = 60.0  # an unreachable server is asked again after this time


class Warnings:
    """Issues each kind of warning only once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def warn(self, kind: str, text: str) -> None:
        if kind not in self._given:
            self._given.add(kind)
            warnings.warn(f"remote cache: {text}", TkjitWarning, stacklevel=3)

    def forget(self, kind: str) -> None:
        self._given.discard(kind)


class Outage:
    """Remembers when a server last failed to answer.

    Parameters
    ----------
    directory : Path
        A directory in the cache. The outage is noted there, so that other processes see it.
    """

    def __init__(self, url: str, directory: Path, warnings: Warnings, *, shared: bool) -> None:
        self._shown = RemoteSettings(url).shown
        self._memo = directory / f"unreachable-{hashlib.sha256(url.encode()).hexdigest()[:16]}"
        self._warnings = warnings
        self._shared = shared
        self._since = -math.inf  # a time of the monotonic clock, used if the memo cannot be written

    def is_recent(self) -> bool:
        """Return whether a process using this cache found the server unreachable in the last minute. If so, warn."""
        age_s = time.monotonic() - self._since
        with suppress(OSError):
            age_s = min(age_s, abs(time.time() - self._memo.stat().st_mtime))
        if age_s >= FORGET_S:
            return False
        self._warnings.warn("outage", f"{self._shown} is skipped: it did not answer {age_s:.0f} s ago")
        return True

    def begin(self, why: str) -> None:
        """Remember that the server does not answer, and warn."""
        self._since = time.monotonic()
        with suppress(OSError):
            files.write(self._memo, why + "\n", shared=self._shared)
        self._warnings.forget("outage")
        self._warnings.warn(
            "outage",
            f"{self._shown} does not answer: {why}; missing entries are compiled here, and the server is not asked "
            f"again for {FORGET_S:.0f} s",
        )
