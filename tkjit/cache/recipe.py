"""Recipes (a build's known inputs) and products (its outputs). ``build_key`` is a hash of a recipe's parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tkjit.system import files
from tkjit.system.fork_safe import cached_property

PATHS = "paths"  # the name of the only part of a key in which directories are anchored
TEXT = "text"  # the name of the long part: an entry records only its digest, and keeps the text in a file


@dataclass(frozen=True)
class Recipe:
    """The inputs of an entry, apart from the files that a compiler finds by itself.

    Parameters
    ----------
    arch : str
        The name of a directory in the cache: ``sm_90a``, ``cpu-x86-64-v3``, ``glue`` or ``runtime``, for example.
    parts : tuple of (str, str)
        The named parts of the key, such as texts, flags and versions. ``paths`` lists one directory per line, and is
        the only part in which ``anchors`` apply.
    anchors : tuple of (str, str)
        Pairs of a name and a directory. The key contains the name instead of the directory, because the directory may
        be elsewhere on another machine.
    tools : tuple of (str, str), or None
        The compilers' versions, or None if there are no compilers.
    own : tuple of str
        The anchors of the kernel's own directories. Files in these directories are compared even for read-only layers.
    stays_here : bool
        Whether entries from other machines are useless. If so, neither layers nor a remote cache are searched.
    """

    arch: str
    name: str
    parts: tuple[tuple[str, str], ...]
    anchors: tuple[tuple[str, str], ...] = ()
    tools: tuple[tuple[str, str], ...] | None = ()
    own: tuple[str, ...] = ()
    stays_here: bool = False

    @cached_property
    def build_key(self) -> str:
        return digest_of(dict(self.key_parts()))

    @property
    def text(self) -> str:
        """The text that gets compiled."""
        return dict(self.parts).get(TEXT, "")

    def key_parts(self) -> Iterator[tuple[str, str]]:
        """Yield the parts as they enter the key. A path in a text or a define is a value, so it is not anchored."""
        for name, text in self.parts:
            yield name, "\n".join(map(self.anchor, text.split("\n"))) if name == PATHS else text

    def recorded_parts(self) -> dict[str, str]:
        """Return the parts as an entry records them, for comparison with another entry."""
        return {name: digest_of(text) if name == TEXT else text for name, text in self.key_parts()}

    def anchor(self, path: str) -> str:
        """Replace the innermost anchored directory of a path by that directory's name in the key."""
        inside = [(name, place) for name, place in self.anchors if path == place or path.startswith(f"{place}/")]
        if not inside:
            return path
        name, place = max(inside, key=lambda anchor: len(anchor[1]))
        return f"<{name}>{path[len(place) :]}"

    def resolve(self, text: str) -> str:
        """Undo ``anchor``."""
        if text.startswith("<"):
            for name, path in self.anchors:
                if text == f"<{name}>" or text.startswith(f"<{name}>/"):
                    return path + text[len(name) + 2 :]
        return text

    def is_own(self, anchored: str) -> bool:
        """Return whether a file, given its anchored path, belongs to the kernel."""
        return anchored.startswith(tuple(f"<{name}>/" for name in self.own))


@dataclass(frozen=True)
class Product:
    """The files that a finished build has left in its staging directory.

    Parameters
    ----------
    shared_object : str
        The file name of the shared object.
    dependencies : tuple of Path
        Every file that the compiler read.
    facts : mapping
        Further facts for the manifest, such as times, registers and the command.
    search : tuple of Path
        Directories that the compiler searches before its own. A new file in one of them may hide a dependency.
    """

    shared_object: str
    dependencies: tuple[Path, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    search: tuple[Path, ...] = ()


def digest_of(value: object) -> str:
    return files.sha256_of(files.to_json(value, sort_keys=True).encode())


def digest_of_file(path: Path | str) -> str:
    return files.sha256_of(files.read(path, follow=True))
