"""Functions that damage the files of a cache."""

from __future__ import annotations

import os
from pathlib import Path


def drop_last_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def flip_byte_keeping_time(path: Path) -> None:
    before = path.stat()
    flip_byte(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def make_empty(path: Path) -> None:
    path.write_bytes(b"")


def replace_by_a_list(path: Path) -> None:
    path.write_text("[]")
