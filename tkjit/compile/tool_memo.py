"""Remembers facts about tools across processes, such as their versions, so that a warm call starts no process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tkjit.config import Settings
from tkjit.errors import CacheError
from tkjit.system import files
from tkjit.system.trust import Trust


class ToolMemo:
    """A file in the cache that stores facts about tools. A fact is valid as long as the tool's file does not change.

    Other processes also read and replace the file. If the file cannot be used, each process runs the tools itself. In a
    cache to which untrusted users can write, tkjit neither reads nor writes the file, and does not build anything.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self._path = path
        self._shared = settings.cache_shared
        self._trust = Trust(path.parents[1], shared=self._shared)

    def fact(self, tool: Path, name: str, ask: Callable[[], str]) -> str:
        """Return a fact about a tool, calling ``ask`` only if the fact is not known."""
        known, key, facts = self._look_up(tool)
        if name not in facts:
            facts[name] = ask()
            self._write({**known, key: facts})
        return str(facts[name])

    def version(self, tool: Path, ask: Callable[[], str], name: str = "version") -> str:
        """Return a tool's version. A script runs another program, so its version also contains a digest of its text."""
        version, text = self.fact(tool, name, ask), script_of(tool)
        return f"{version} (script:{files.sha256_of(text)[:16]})" if text else version

    def known(self, tool: Path) -> dict[str, Any]:
        """Return all known facts about a tool in its current state."""
        return self._look_up(tool)[2]

    def _look_up(self, tool: Path) -> tuple[dict[str, object], str, dict[str, Any]]:
        """Return the memo file's content, the tool's key in it, and the facts about the tool."""
        real = tool.resolve()
        stat = real.stat()
        # a script may be rewritten within one tick of the clock, so its modification time is not enough
        identity = [stat.st_size, stat.st_mtime_ns, files.sha256_of(script_of(tool))[:16]]
        known = self._read()
        # the name is part of the key, because some compiler wrappers behave differently under different names
        key = f"{tool.absolute()} -> {real}"
        facts: Any = known.get(key)
        if not isinstance(facts, dict) or facts.get("identity") != identity:
            facts = {"identity": identity}
        return known, key, facts

    def _read(self) -> dict[str, object]:
        try:
            self._trust.check(str(self._path.parent))
            known = files.read_json(self._path)
        except (OSError, ValueError, CacheError):
            return {}
        return known if isinstance(known, dict) else {}

    def _write(self, content: Mapping[str, object]) -> None:
        directory = self._path.parent
        with suppress(OSError, CacheError):
            self._trust.check(str(directory))
            files.make_directory(directory, shared=self._shared)
            self._trust.check(str(directory))  # again, because another user may have created it first
            files.write(self._path, files.to_json(content, indent=1), shared=self._shared)


def script_of(path: Path) -> bytes:
    """Return the text of a script, or an empty text for any other program."""
    try:
        with path.open("rb") as file:
            first = file.read(2)
            return first + file.read() if first == b"#!" else b""
    except OSError:
        return b""
