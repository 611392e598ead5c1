"""Reads constants from a cubin, which is an ELF file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_HEADER_BYTES, _SECTION_BYTES, _SYMBOL_BYTES = 64, 64, 24
_SYMBOL_TABLE = 2  # SHT_SYMTAB


class _Section(NamedTuple):
    """The fields of a section header (``Elf64_Shdr``) that this module needs."""

    kind: int
    offset: int
    bytes: int
    link: int  # for a symbol table, the index of the section with the names


def constant(cubin: bytes, name: str) -> bytes:
    """Return the bytes of a variable that has an initial value.

    Raises
    ------
    ValueError
        If the file has no such variable, or is not a 64-bit ELF file.
    """
    if cubin[:5] != b"\x7fELF\x02" or len(cubin) < _HEADER_BYTES:
        raise ValueError("not a 64-bit ELF file")
    try:
        sections = list(_sections(cubin))
        for table in sections:
            if table.kind != _SYMBOL_TABLE:
                continue
            names = sections[table.link]
            for at in range(table.offset, table.offset + table.bytes, _SYMBOL_BYTES):
                named_at, _, _, index, value, size = struct.unpack_from("<IBBHQQ", cubin, at)
                begin = names.offset + named_at
                if cubin[begin : cubin.index(0, begin)] == name.encode() and 0 < index < len(sections):
                    first = sections[index].offset + value
                    return cubin[first : first + size]
    except (struct.error, IndexError, ValueError):
        raise ValueError("a damaged ELF file") from None
    raise ValueError(f"no variable {name}")


def _sections(cubin: bytes) -> Iterator[_Section]:
    (first,) = struct.unpack_from("<Q", cubin, 40)  # e_shoff
    (count,) = struct.unpack_from("<H", cubin, 60)  # e_shnum
    for at in range(first, first + count * _SECTION_BYTES, _SECTION_BYTES):
        _, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", cubin, at)
        yield _Section(kind, offset, size, link)
