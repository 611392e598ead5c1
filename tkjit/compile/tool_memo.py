"""Remembers across processes what tools say of themselves, so that a warm call starts no process."""

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
    """A file in the cache with facts about tools, each valid for as long as the tool's file does not change.

    Other processes read and replace it. If it cannot be used, each process asks for itself. In a cache that untrusted
    users can write to, it is neither read nor written: tkjit does not build there either.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self._path = path
        self._shared = settings.cache_shared
        self._trust = Trust(path.parents[1], shared=self._shared)

    def fact(self, tool: Path, name: str, ask: Callable[[], str]) -> str:
        """A fact about a tool; ``ask`` is called only if it is not known."""
        known, key, facts = self._look_up(tool)
        if name not in facts:
            facts[name] = ask()
            self._write({**known, key: facts})
        return str(facts[name])

    def version(self, tool: Path, ask: Callable[[], str], name: str = "version") -> str:
        """What a tool says of its version. A script runs another program, so its own text is part of its version."""
        version, text = self.fact(tool, name, ask), script_of(tool)
        return f"{version} (script:{files.sha256_of(text)[:16]})" if text else version

    def known(self, tool: Path) -> dict[str, Any]:
        """All facts that are known about a tool as it is now."""
        return self._look_up(tool)[2]

    def _look_up(self, tool: Path) -> tuple[dict[str, object], str, dict[str, Any]]:
        """The file's content, a tool's key in it, and the facts about the tool."""
        real = tool.resolve()
        stat = real.stat()
        # a script may be written anew within a tick of the clock
        identity = [stat.st_size, stat.st_mtime_ns, files.sha256_of(script_of(tool))[:16]]
        known = self._read()
        # by the name it is called by too, which some compilers' wrappers look at
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
            self._trust.check(str(directory))  # now that it is there: somebody else may have been first
            files.write(self._path, files.to_json(content, indent=1), shared=self._shared)


def script_of(path: Path) -> bytes:
    """The text of a program that is a script; empty for any other."""
    try:
        with path.open("rb") as file:
            first = file.read(2)
            return first + file.read() if first == b"#!" else b""
    except OSError:
        return b""
