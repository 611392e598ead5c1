"""Notes of what was compared: while no file has changed since, a warm call reads neither headers nor manifests.

A note is local and may be deleted. Its first line says which entries it is about, each other line has a file's identity
and path. A process reads them often, so the runtime has a compiled ``unchanged``, which does the same as the one here.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tkjit.system import files

DIRECTORY = "notes"
ABSENT = b"0 0 0 0"
# a second change within a tick of the kernel's clock (at most 10 ms) leaves a file's times as they are
SETTLED_NS = 50_000_000


def identity(path: str | bytes) -> bytes:
    """What changes when a file's content may have: its size, times and inode, ``ABSENT`` if there is no file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ABSENT
    return b"%d %d %d %d" % (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def identities(paths: Iterable[str | bytes]) -> bytes:
    """The lines of a note; a path with a line's end in it makes one that never holds."""
    return b"".join(b"%b %b\n" % (identity(path), os.fsencode(path)) for path in paths)


def moved_since(paths: Iterable[str], begun_ns: int) -> bool:
    """Whether a directory or a link on the way to a file was put there since: the file itself is as old as it was."""
    places: set[str] = set()
    for path in paths:
        while path not in places and len(path) > 1:
            places.add(path)
            path = os.path.dirname(path)
    return any(_was_put_there(place, begun_ns) for place in places)


def _was_put_there(path: str, begun_ns: int) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return True
    # a move changes the later one of a directory's times alone, a new file in it both
    is_new = stat.S_ISLNK(status.st_mode) or status.st_mtime_ns != status.st_ctime_ns
    return is_new and status.st_ctime_ns >= begun_ns


def unchanged(lines: bytes) -> bool:
    """Whether every file of a note is as it was."""
    noted = lines.split(b"\n")[:-1]
    return identities([line.split(b" ", 4)[-1] for line in noted]) == lines


def read(path: str | Path) -> tuple[list[Any], bytes] | None:
    """What a note says, in JSON's types, and its lines; None if there is none that can be read."""
    try:
        head, _, lines = files.read(path).partition(b"\n")
        digest, *content = files.from_json(head)
        return (content, lines) if content and digest == _digest(content, lines) else None
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _digest(content: list[Any], lines: bytes) -> str:
    """Of all that the lines do not prove by themselves: what they are about, and that none is missing."""
    return hashlib.sha256(f"{len(lines)} {content}".encode()).hexdigest()


def write(path: Path, content: list[Any], lines: bytes, *, shared: bool = False) -> None:
    """Write a note, unless a file changed so lately that the next change might go unseen; a full disk is no error."""
    stamps = [int(stamp) for line in lines.split(b"\n")[:-1] for stamp in line.split(b" ", 3)[1:3] if stamp.isdigit()]
    # a file system that knows whole seconds only
    tick_ns = 1_000_000_000 if all(stamp % 1_000_000_000 == 0 for stamp in stamps) else 0
    if time.time_ns() - max(stamps, default=0) < SETTLED_NS + tick_ns:
        return
    content = json.loads(json.dumps(content))  # tuples are lists for who reads it
    with suppress(OSError):
        head = json.dumps([_digest(content, lines), *content]).encode()
        files.write(path, head + b"\n" + lines, shared=shared)
