"""Adds ``template`` and ``typename`` where a source omits them, which nvcc allows but g++ and clang do not.

Only the compiler knows where they are missing. So tkjit reads its errors, repairs the text and compiles it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TEMPLATE = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):\d+: error: "
    r"(?:expected primary-expression before|expected initializer before|use 'template' keyword"
    r"|invalid operands of types .<unresolved overloaded function type>)",
    re.MULTILINE,
)
_TYPE = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):\d+: error: (?:dependent-name .(?P<name>[^\n]*?). is parsed as a non-type"
    r"|missing 'typename' prior to dependent type name '(?P<other>[^']*)')",
    re.MULTILINE,
)
_MARK = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)"[ \d]*$', re.MULTILINE)
_MEMBER = re.compile(r"(\.|->|::)\s*(\w+)(?=\s*<)")


def repaired(text: str, log: str) -> str | None:
    """Add the keywords that a compiler's log asks for to a preprocessed text; return None if nothing changes."""
    wanted: dict[tuple[str, int], set[str]] = {}
    for match in _TEMPLATE.finditer(log):
        wanted.setdefault((match["file"], int(match["line"])), set()).add("")
    for match in _TYPE.finditer(log):
        name = (match["name"] or match["other"]).rpartition("::")[2]
        wanted.setdefault((match["file"], int(match["line"])), set()).add(name)
    if not wanted:
        return None
    pieces, end = [], 0
    for place, start, stop in _lines(text, set(wanted)):
        line = text[start:stop]
        for name in wanted[place]:
            line = _with_typename(line, name) if name else _MEMBER.sub(_with_template, line)
        pieces += [text[end:start], line]
        end = stop
    result = "".join([*pieces, text[end:]])
    return result if result != text else None


def _with_template(member: re.Match[str]) -> str:
    if member[2] in ("template", "operator"):
        return member[0]
    return f"{member[1]}template {member[2]}"


def _with_typename(line: str, name: str) -> str:
    """Insert ``typename`` before each qualified name that ends in ``name``, such as ``layout::tile``.

    >>> _with_typename("sizeof(layout::tile) + sizeof(typename other::tile)", "tile")
    'sizeof(typename layout::tile) + sizeof(typename other::tile)'
    """
    return re.sub(rf"(?<![\w:])(?<!typename )((?:\w+::)+{re.escape(name)}\b)", r"typename \1", line)


def _lines(text: str, wanted: set[tuple[str, int]]) -> Iterator[tuple[tuple[str, int], int, int]]:
    """Yield each occurrence of the wanted lines in a preprocessed text, in order, as (line, start, end)."""
    files = {file for file, _ in wanted}
    marks = list(_MARK.finditer(text))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        if mark[2] not in files:
            continue
        stop = following.start() if following else len(text)
        number, start = int(mark[1]), mark.end() + 1
        while start < stop:
            end = text.find("\n", start, stop)
            end = stop if end < 0 else end
            if (mark[2], number) in wanted:
                yield (mark[2], number), start, end
            number, start = number + 1, end + 1
