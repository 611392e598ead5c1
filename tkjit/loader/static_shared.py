"""Checks that a CPU launcher uses at most 48 KiB of static shared memory, the limit of a GPU."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from tkjit.source.lexer import tokens_of
from tkjit.source.regions import regions_of
from tkjit.source.scopes import outline

MAX_BYTES = 48 << 10
_SYMBOL_TABLE, _THREAD_LOCAL = 2, 6


def too_much_static_shared(shared_object: Path, source: str, name: str) -> str:
    """Return an error, worded like ptxas's, for a function with too much static shared memory; empty if there is none.

    In a launcher, a ``__shared__`` variable is local to an OS thread, and its symbol contains the name of its function.
    The variables of functions that a kernel calls are not counted for the kernel, because the symbol table does not
    show which function calls which.

    Parameters
    ----------
    shared_object : Path
        The launcher.
    source : str
        The kernel's source. Only its device functions are checked.
    name : str
        The name of the source in the message.
    """
    tokens = tokens_of(source)
    regions = [r for r in regions_of(tokens, outline(tokens)) if r.kind != "host" and r.name]
    taken: dict[tuple[str, str], dict[str, int]] = {}
    for symbol, size in _thread_local(shared_object):
        function, variable = _parts(symbol)
        places = {r.name: function.find(f"{len(r.name)}{r.name}") for r in regions}
        found = [(place, name_of_function) for name_of_function, place in places.items() if place >= 0]
        if variable and found:
            of_function = taken.setdefault((min(found)[1], function), {})
            of_function[variable] = of_function.get(variable, 0) + size
    for (name_of_function, _), sizes in taken.items():
        total = sum(sizes.values())
        if total > MAX_BYTES:
            start = next(r.start for r in regions if r.name == name_of_function)
            listed = ", ".join(f"{variable} {size}" for variable, size in sizes.items())
            line = source.count("\n", 0, start) + 1
            return (
                f"{name}:{line}: error: {name_of_function} uses too much shared data ({total:#x} bytes, "
                f"{MAX_BYTES:#x} max): {listed} bytes; use dynamic shared memory (extern __shared__) for more"
            )
    return ""


def _parts(symbol: str) -> tuple[str, str]:
    """Split the symbol of a local variable into the function's mangled name and the variable's name.

    >>> _parts("_ZZ6kernelPfE4tile"), _parts("_ZZ6kernelPfE1b_0"), _parts("_ZZZ2tkIfEvPT_ENKUlvE_clEvE1q")
    (('6kernelPf', 'tile'), ('6kernelPf', 'b'), ('2tkIfEvPT_', 'q'))
    """
    for match in re.finditer(r"E(\d+)", symbol):
        variable = symbol[match.end() : match.end() + int(match[1])]
        suffix = symbol[match.end() + int(match[1]) :]
        if symbol.startswith("_ZZ") and len(variable) == int(match[1]) and re.fullmatch(r"(?:_\d|__\d+_)?", suffix):
            # count a lambda's variable for the function that contains the lambda
            return re.split(r"E?NKUl", symbol[2 : match.start()].lstrip("Z"))[0], variable
    return "", ""


def _thread_local(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the names and sizes of an ELF file's thread-local variables."""
    data = path.read_bytes()
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        names = sections[section[6]][4]
        for place in range(section[4], section[4] + section[5], section[9]):
            name, info, _, _, _, own_size = struct.unpack_from("<IBBHQQ", data, place)
            if info & 15 == _THREAD_LOCAL and own_size:
                start = names + name
                yield data[start : data.index(0, start)].decode(), own_size
