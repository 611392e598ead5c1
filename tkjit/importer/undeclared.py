"""Finds undeclared types, which clang silently replaces by ``int``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tkjit.importer.clang import Error, Parsed
from tkjit.importer.members import without_reference
from tkjit.source.lexer import tokens_of

_INSIDE = frozenset(["NAMESPACE", "LINKAGE_SPEC", "STRUCT_DECL", "CLASS_DECL", "CLASS_TEMPLATE"])
_NAMES = frozenset(["TYPEDEF_DECL", "TYPE_ALIAS_DECL"])


def unknown_names(parsed: Parsed, path: Path) -> dict[str, Error]:
    """Map each typedef whose declaration has an error, and each typedef that uses such a typedef, to the error."""
    places = {(file, line): error for error in parsed.errors for file, line in error.places[:1]}
    files = {file for file, _ in places}
    typedefs = [
        cursor
        for outer in parsed.declarations()
        if outer.location.file is not None
        and (outer.location.file.name in files or Path(outer.location.file.name).parent == path.parent)
        for cursor in _typedefs(outer)
    ]
    found: dict[str, Error] = {}
    for cursor in typedefs:
        extent = cursor.extent
        lines = range(extent.start.line, extent.end.line + 1)
        errors = [places[place] for line in lines if (place := (extent.start.file.name, line)) in places]
        if errors:
            found[cursor.spelling] = errors[0]
    for cursor in typedefs:  # in source order, because a typedef can only use earlier ones
        made_of = [word for word in _words(cursor.underlying_typedef_type.spelling) if word in found]
        if made_of:
            found.setdefault(cursor.spelling, found[made_of[0]])
    return found


def _typedefs(cursor: Any) -> Iterator[Any]:
    if cursor.kind.name in _NAMES:
        yield cursor
    elif cursor.kind.name in _INSIDE:
        for child in cursor.get_children():
            yield from _typedefs(child)


def words_of_kernel(entry: str, place: tuple[str, int, int] | None, types: Sequence[Any]) -> Iterator[str]:
    """Return the names in a kernel's signature, in its template arguments and in the members of its structs."""
    yield from _words(entry)
    if place is not None and Path(place[0]).is_file():
        lines = Path(place[0]).read_text(encoding="utf-8", errors="replace").splitlines()[place[1] - 1 : place[2]]
        yield from _words("\n".join(lines).split("{")[0])
    yield from _of_members(types)


def _of_members(types: Sequence[Any]) -> Iterator[str]:
    for type_ in types:
        record = without_reference(type_)
        if record.kind.name == "RECORD":
            fields = [field.type for field in record.get_fields()]
            for field in fields:
                yield from _words(field.spelling)
            yield from _of_members(fields)


def _words(text: str) -> list[str]:
    return [token.text for token in tokens_of(text) if token.kind == "word"]
