"""Unpacks the object that contains an entry's files, concatenated and compressed as one zlib stream."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path

from tkjit.cache.remote.signing import RefusedError
from tkjit.cache.remote.statement import Statement

_CHUNK = 1 << 20


def unpack(packed: Path, statement: Statement, directory: Path) -> None:
    """Unpack the files that a statement lists into a directory, and check their sizes and hashes.

    Raises
    ------
    RefusedError
        If the object does not match the statement. The files written by then must not be used as an entry.
    OSError
        If a file cannot be written.
    """
    chunks = _unpacked(packed)
    pending = b""
    for file in statement.files:
        digest, left = hashlib.sha256(), file.size
        with (directory / file.name).open("xb") as target:
            while left:
                pending = pending or next(chunks, b"")
                if not pending:
                    raise RefusedError(f"{statement.object_name} ends too early")
                part, pending = pending[:left], pending[left:]
                digest.update(part)
                target.write(part)
                left -= len(part)
        if digest.hexdigest() != file.sha256:
            raise RefusedError(f"{file.name} in {statement.object_name} does not match the hash in the statement")
        (directory / file.name).chmod(0o755 if file.is_program else 0o644)
    if pending or next(chunks, b""):
        raise RefusedError(f"{statement.object_name} is longer than the statement allows")


def _unpacked(packed: Path) -> Iterator[bytes]:
    """Yield the unpacked content in chunks of limited size, no matter how much the object expands."""
    reader = zlib.decompressobj()
    with packed.open("rb") as file:
        while not reader.eof and (data := file.read(_CHUNK)):
            try:
                while chunk := reader.decompress(data, _CHUNK):
                    yield chunk
                    data = reader.unconsumed_tail
            except zlib.error as error:
                raise RefusedError(f"{packed.name} cannot be unpacked: {error}") from None
