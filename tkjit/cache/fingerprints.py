"""Fingerprints of files, and warm records. While no file changes, a warm call reads neither headers nor manifests.

A fingerprint is a byte string with one line for each file: its size, times, inode and path. A warm record is a file
named after its warm key. Its first line lists entries; the other lines are the fingerprint of these entries. Records
are local and may be deleted. Because fingerprints are compared often, the runtime has a faster ``unchanged`` in C++.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tkjit.cache import recipe
from tkjit.system import files

DIRECTORY = "notes"  # the directory that contains the records
ABSENT = b"0 0 0 0"
# a second change within one tick of the kernel's clock (at most 10 ms) does not alter a file's times
SETTLED_NS = 50_000_000


def state_of(path: str | bytes) -> bytes:
    """Return a file's size, times and inode, or ``ABSENT``. At least one of them changes whenever the content does."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ABSENT
    return b"%d %d %d %d" % (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def of(paths: Iterable[str | bytes]) -> bytes:
    """Return the fingerprint of some files. If a path contains a line break, the fingerprint never matches."""
    return b"".join(b"%b %b\n" % (state_of(path), os.fsencode(path)) for path in paths)


def changed(fingerprint: bytes) -> list[str]:
    """List the files in a fingerprint that have changed."""
    found = []
    for line in fingerprint.split(b"\n")[:-1]:
        *state, path = line.split(b" ", 4)
        if state_of(path) != b" ".join(state):
            found.append(os.fsdecode(path))
    return found


def moved_since(paths: Iterable[str], begun_ns: int) -> bool:
    """Return whether a directory or link on one of the paths was put there after the build began.

    Such a move replaces the file at the path, but the new file may have old times.
    """
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
    # moving a directory changes only its status time, but adding a file to it changes both of its times
    is_new = stat.S_ISLNK(status.st_mode) or status.st_mtime_ns != status.st_ctime_ns
    return is_new and status.st_ctime_ns >= begun_ns


# maps a path to a state of the file, and the digest of the file's content in that state
_digests: dict[str, tuple[bytes, str]] = {}


def digest_of_file(path: str) -> str:
    """Return the digest of a file's content. Digests of unchanged files are cached, because builds share many headers.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    state = state_of(path)
    kept_state, digest = _digests.get(path, (b"", ""))
    if state != kept_state:
        digest = recipe.digest_of_file(path)
        if _is_settled(state.split(b" ")[1:3]):
            _digests[path] = state, digest
    return digest


def after_linking(fingerprint: bytes, path: str) -> bytes:
    """Update a fingerprint after one of its files was hard-linked, which changes the file's status time."""
    lines = fingerprint.splitlines(keepends=True)
    end = b" %b\n" % os.fsencode(path)
    for at, line in enumerate(lines):
        if line.endswith(end):
            before, now = line.split(b" ", 4), state_of(path).split(b" ")
            if [before[i] for i in (0, 1, 3)] == [now[i] for i in (0, 1, 3)]:  # all but the status time are equal
                lines[at] = b" ".join(now) + end
    return b"".join(lines)


def unchanged(fingerprint: bytes) -> bool:
    """Return whether every file in a fingerprint is unchanged."""
    lines = fingerprint.split(b"\n")[:-1]
    return of([line.split(b" ", 4)[-1] for line in lines]) == fingerprint


def read_record(path: str | Path) -> tuple[list[Any], bytes] | None:
    """Return a record's content, parsed from JSON, and its fingerprint. Return None if the record cannot be read."""
    try:
        head, _, fingerprint = files.read(path).partition(b"\n")
        digest, *content = files.from_json(head)
        return (content, fingerprint) if content and digest == _digest(content, fingerprint) else None
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _digest(content: list[Any], fingerprint: bytes) -> str:
    """Return a digest of a record's content and its fingerprint's length. The fingerprint itself verifies neither."""
    return files.sha256_of(f"{len(fingerprint)} {content}".encode())


def _is_settled(stamps: Iterable[bytes]) -> bool:
    """Return whether the files are old enough that any change from now on will alter their times."""
    times = [int(stamp) for stamp in stamps if stamp.isdigit()]
    # some file systems store only whole seconds
    tick_ns = 1_000_000_000 if all(stamp % 1_000_000_000 == 0 for stamp in times) else 0
    return time.time_ns() - max(times, default=0) >= SETTLED_NS + tick_ns


def write_record(path: Path, content: list[Any], fingerprint: bytes, *, shared: bool = False) -> None:
    """Write a record, unless a file changed so recently that its next change could be missed. Ignore a full disk."""
    if not _is_settled(stamp for line in fingerprint.split(b"\n")[:-1] for stamp in line.split(b" ", 3)[1:3]):
        return
    content = files.from_json(files.to_json(content))  # hash what a reader will get: lists instead of tuples
    with suppress(OSError):
        head = files.to_json([_digest(content, fingerprint), *content]).encode()
        files.write(path, head + b"\n" + fingerprint, shared=shared)
