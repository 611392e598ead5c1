"""Finds the files that an assembler reads with ``.incbin`` or ``.include``. Compilers do not report these files.

A macro may assemble the directive (``INCBIN(table, "table.bin")``). So if a compiled text contains the directive, every
string literal with the name of a file counts as a dependency. An extra dependency may cost a rebuild, but a missing one
may result in an outdated kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tkjit.system import files

_DIRECTIVE = re.compile(rb"incbin|\.include\b", re.IGNORECASE)
_WORDS = (b"incbin", b".include")  # for a quick test, because every directive contains one of these words
_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\\\s]{0,16})\((?P<raw>.*?)\)(?P=mark)"|"(?P<plain>(?:\\.|[^"\\\n])*)"'
    r"|'(?:\\.|[^'\\\n])*'|(?P<space>\s+)|[^\s\"'/R]+|.",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t"}
_QUOTED = re.compile(r'"([^"\n]+)"')


def embedded_files(
    text: str, read: Iterable[Path], search: Sequence[Path], words: Iterable[str] = ()
) -> tuple[Path, ...]:
    """Return the files that an assembler may have read.

    Parameters
    ----------
    text : str
        The text that was compiled.
    read : iterable of Path
        The files that the compiler reported.
    search : sequence of Path
        The directories in which the compiler searches for headers, and the assembler for the files that it reads.
    words : iterable of str
        The command line, which may define a macro with a file's name: ``-DTABLE="table.bin"``.
    """
    texts = [text.encode(), *_contents(read)]
    if not any(_has_directive(one) for one in texts):
        return ()
    defines = [word for word in words if word.startswith("-D")]
    texts += [word.encode() for word in defines]
    names = {name for one in texts for name in _names_in(one.decode(errors="surrogateescape"))}
    names |= {word.partition("=")[2] for word in defines}
    return tuple(sorted(path for name in names if (path := _find(name, search)) is not None))


def _has_directive(text: bytes) -> bool:
    small = text.lower()
    return any(word in small for word in _WORDS) and _DIRECTIVE.search(text) is not None


def _contents(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        with suppress(OSError):
            yield files.read(path, follow=True)


def _names_in(text: str) -> Iterator[str]:
    """Yield the contents of string literals, and of quoted texts inside these literals."""
    for literal in _literals(text.replace("\\\n", "")):
        yield literal
        yield from _QUOTED.findall(literal)


def _literals(text: str) -> Iterator[str]:
    """Yield a text's string literals. Also join adjacent literals and yield the result, as a compiler joins them."""
    row: list[str] = []
    for token in _TOKEN.finditer(text):
        raw, plain = token["raw"], token["plain"]
        if raw is not None or plain is not None:
            row.append(raw if raw is not None else _unescape(plain))
            yield row[-1]
        elif token["space"] is None and not token[0].startswith(("//", "/*")):
            if len(row) > 1:
                yield "".join(row)
            row.clear()
    if len(row) > 1:
        yield "".join(row)


def _unescape(literal: str) -> str:
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), literal, flags=re.DOTALL)


def _find(name: str, search: Sequence[Path]) -> Path | None:
    """Return the file that an assembler finds for a name, or None if it finds no file."""
    for directory in search:
        with suppress(OSError, ValueError):  # the literal is not a valid file name, or is too long
            path = directory / name
            if name and path.is_file():
                return path
    return None
