"""Reads the declarations of headers with libclang.

The result is plain data: the names of each bound namespace. A name has a ``kind``, a ``doc`` and, depending on its
kind, ``overloads``, ``members``, ``bases`` or ``values``. Members that an instance of a template inherits are missing,
because libclang does not show them. tkjit later asks the compiler for these members.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tkjit.bindings.declarations import UNKNOWN_DEFAULT
from tkjit.bindings.header_set import HeaderSet
from tkjit.compile.flags import INCLUDE
from tkjit.errors import ToolchainError
from tkjit.importer import clang

Declared = dict[str, Any]
_NAME = "tkjit_headers.hpp"
_CLASSES = ("STRUCT_DECL", "CLASS_DECL", "UNION_DECL")
_TEMPLATES = ("CLASS_TEMPLATE", "CLASS_TEMPLATE_PARTIAL_SPECIALIZATION")
_REFERENCES = ("DECL_REF_EXPR", "TYPE_REF", "TEMPLATE_REF", "NAMESPACE_REF")
_PARAMETERS = ("TEMPLATE_TYPE_PARAMETER", "TEMPLATE_NON_TYPE_PARAMETER", "TEMPLATE_TEMPLATE_PARAMETER")


def read_declarations(headers: HeaderSet, toolkit: Iterable[Path] = ()) -> Declared:
    """Return the declarations of a set of headers, by namespace and name.

    Parameters
    ----------
    toolkit : iterable of Path
        The directories of CUDA's own headers, which nvcc finds by itself.

    Raises
    ------
    ToolchainError
        If libclang is missing, or a header is not found or does not parse. The error names the file and the line.
    """
    text, arguments = _to_parse(headers, toolkit)
    parsed = clang.parse_text(_NAME, text, arguments)
    own = {str(Path(path)) for path in parsed.included(headers.headers)}
    found = _Reader(set(headers.namespaces), own).read(parsed)
    _check(parsed.errors, found, headers)
    return found


def read_members(headers: HeaderSet, type_text: str, toolkit: Iterable[Path] = ()) -> list[str]:
    """Return the names of the members of a type, including those of its bases.

    Raises
    ------
    ToolchainError
        If libclang, or a file that it needs, is missing.
    """
    text, arguments = _to_parse(headers, toolkit)
    return clang.complete_member(_NAME, f"{text}\nvoid tkjit_members({type_text}& object) {{ object.", arguments)


def _to_parse(headers: HeaderSet, toolkit: Iterable[Path]) -> tuple[str, list[str]]:
    text = headers.text.replace("#include <tkjit/bind.h>\n", "")
    directories = [f"-I{directory}" for directory in (INCLUDE, *headers.search_path, *toolkit)]
    return text, ["-x", "c++", "-w", *headers.preprocessor, *directories]


def _check(errors: tuple[clang.Error, ...], found: Declared, headers: HeaderSet) -> None:
    """Raise an error only if there is nothing to bind, because clang also finds errors in g++'s own headers."""
    missing = next((error for error in errors if "file not found" in error.text), None)
    wanted = [name for name in headers.namespaces if not found.get(name)]
    if (wanted or not any(found.values())) and errors:
        error = missing or errors[0]
        place = ":".join(map(str, error.places[0])) if error.places else headers.name
        raise ToolchainError(f"bind: {place}: {error.text}")
    if wanted:
        raise ToolchainError(f"bind: the headers declare nothing in the namespace {', '.join(wanted)}")


class _Reader:
    def __init__(self, namespaces: set[str], own: set[str]) -> None:
        self._namespaces = namespaces
        self._own = own
        self._found: Declared = {}

    def read(self, parsed: clang.Parsed) -> Declared:
        for cursor in parsed.declarations():
            self._visit(cursor, "")
        return self._found

    def _visit(self, cursor: Any, scope: str) -> None:
        kind = cursor.kind.name
        if kind == "NAMESPACE":
            path = scope if clang.is_inline_namespace(cursor) else _join(scope, cursor.spelling)
            if cursor.spelling and self._may_hold(path):
                for child in cursor.get_children():
                    self._visit(child, path)
        elif kind == "LINKAGE_SPEC":
            for child in cursor.get_children():
                self._visit(child, scope)
        elif self._is_bound(cursor, scope) and cursor.spelling:
            self._add(self._found.setdefault(scope, {}), cursor, kind)

    def _may_hold(self, path: str) -> bool:
        return not self._namespaces or any(
            path == name or path.startswith(f"{name}::") or name.startswith(f"{path}::") for name in self._namespaces
        )

    def _is_bound(self, cursor: Any, scope: str) -> bool:
        if self._namespaces:
            return any(scope == name or scope.startswith(f"{name}::") for name in self._namespaces)
        file = cursor.location.file
        return file is not None and file.name in self._own

    def _add(self, names: Declared, cursor: Any, kind: str) -> None:
        name = cursor.spelling
        if kind in ("FUNCTION_DECL", "FUNCTION_TEMPLATE"):
            if "<" in name and not name.startswith("operator"):
                return  # it is a deduction guide
            declared = names.setdefault(name, {"kind": "function", "doc": "", "overloads": []})
            if declared["kind"] == "function":
                _append_overload(declared, cursor)
        elif kind == "USING_DECLARATION":
            for target in clang.targets_of_using(cursor):
                self._add(names, target, target.kind.name)
        elif kind in _CLASSES or kind in _TEMPLATES:
            self._add_class(names, cursor, is_template=kind in _TEMPLATES)
        elif kind in ("TYPEDEF_DECL", "TYPE_ALIAS_DECL"):
            names.setdefault(name, {"kind": "alias", "doc": _comment(cursor)})
        elif kind == "TYPE_ALIAS_TEMPLATE_DECL":
            names.setdefault(name, {"kind": "class template", "doc": _comment(cursor), "members": {}, "bases": []})
        elif kind == "ENUM_DECL":
            if name in names and not cursor.is_definition():
                return
            values = _values(cursor)
            names[name] = {"kind": "enum", "doc": _comment(cursor), "values": values, "scoped": cursor.is_scoped_enum()}
            for value in [] if cursor.is_scoped_enum() else values:
                names.setdefault(value, {"kind": "variable", "doc": ""})
        elif kind == "VAR_DECL":
            names.setdefault(name, {"kind": "variable", "doc": _comment(cursor)})

    def _add_class(self, names: Declared, cursor: Any, *, is_template: bool) -> None:
        kind = "class template" if is_template else "class"
        declared = names.setdefault(cursor.spelling, {"kind": kind, "doc": "", "members": {}, "bases": []})
        if "members" not in declared:
            return
        declared["doc"] = declared["doc"] or _comment(cursor)
        children = list(cursor.get_children())
        if children and _holds_nothing(cursor):
            declared["holds_nothing"] = True
        for child in children:
            self._add_member(declared, child)

    def _add_member(self, declared: Declared, child: Any) -> None:
        kind, name = child.kind.name, child.spelling
        if kind == "CXX_BASE_SPECIFIER":
            if child.access_specifier.name == "PUBLIC":
                declared["bases"] += [name] if (name := _base_name(child)) else []
            return
        if kind in _PARAMETERS:
            return
        access = child.access_specifier.name
        member = declared["members"].setdefault(name, {"kind": "", "doc": "", "overloads": []}) if name else {}
        if access != "PUBLIC":
            member.setdefault("access", access.lower())
        elif kind in ("CXX_METHOD", "FUNCTION_TEMPLATE", "CONSTRUCTOR", "CONVERSION_FUNCTION"):
            member["kind"] = "method" if kind in ("CXX_METHOD", "FUNCTION_TEMPLATE") else kind.lower()
            _append_overload(member, child)
        elif kind == "FIELD_DECL":
            member["kind"] = "field"
        elif kind == "VAR_DECL":
            member["kind"] = "static field"
        elif kind in (*_CLASSES, *_TEMPLATES, "TYPEDEF_DECL", "TYPE_ALIAS_DECL", "ENUM_DECL"):
            member["kind"] = "type"
            if kind == "ENUM_DECL":
                member["values"] = _values(child)
        elif kind == "USING_DECLARATION":
            self._add_used(member, child)
        if name and not member["doc"]:
            member["doc"] = _comment(child)

    def _add_used(self, member: Declared, using: Any) -> None:
        """Add a member that a class takes from a base with ``using``.

        Nothing is added if the base depends on a template parameter, because libclang cannot resolve the member then.
        """
        for target in clang.targets_of_using(using):
            if target.kind.name in ("CXX_METHOD", "FUNCTION_TEMPLATE"):
                member["kind"] = "method"
                _append_overload(member, target)
            elif target.kind.name == "FIELD_DECL":
                member["kind"] = "field"


def _values(enumeration: Any) -> dict[str, int]:
    return {one.spelling: one.enum_value for one in enumeration.get_children() if one.spelling}


def _join(scope: str, name: str) -> str:
    return f"{scope}::{name}" if scope else name


def _holds_nothing(cursor: Any, max_depth: int = 4) -> bool:
    """Return whether a class and its bases lack any state: fields, constructors, destructors or virtual functions."""
    for child in cursor.get_children():
        kind = child.kind.name
        if kind in ("FIELD_DECL", "CONSTRUCTOR", "DESTRUCTOR") or (kind == "CXX_METHOD" and child.is_virtual_method()):
            return False
        if kind == "CXX_BASE_SPECIFIER":
            base = _base(child)
            if base is None or max_depth == 0 or not _holds_nothing(base, max_depth - 1):
                return False
    return True


def _base(specifier: Any) -> Any:
    """Return the class, or the class template, that a base specifier names."""
    templates = [child.referenced for child in specifier.get_children() if child.kind.name == "TEMPLATE_REF"]
    cursor = templates[-1] if templates else specifier.type.get_declaration()
    return cursor.get_definition() or cursor if cursor is not None else None


def _base_name(specifier: Any) -> str:
    """Return the full name of the base that a specifier names, without template arguments."""
    return _full_name(_base(specifier))


def _full_name(cursor: Any) -> str:
    parts: list[str] = []
    while cursor is not None and cursor.kind.name not in ("TRANSLATION_UNIT", "NO_DECL_FOUND"):
        if cursor.spelling and not (cursor.kind.name == "NAMESPACE" and clang.is_inline_namespace(cursor)):
            parts.insert(0, cursor.spelling)
        cursor = cursor.semantic_parent
    return "::".join(parts)


def _append_overload(declared: Declared, cursor: Any) -> None:
    """Add an overload, unless it was declared before."""
    found = _overload(cursor)
    comment = found.pop("doc", "")
    if found not in declared["overloads"]:
        declared["overloads"].append(found)
    declared["doc"] = declared["doc"] or comment


def _overload(cursor: Any) -> Declared:
    template, parameters = [], []
    for child in cursor.get_children():
        if child.kind.name in _PARAMETERS:
            template.append(child.spelling)
        elif child.kind.name == "PARM_DECL":
            parameters.append([child.spelling, child.type.spelling, _default_of(child)])
    found: Declared = {"parameters": parameters}
    if template:
        found["template"] = template
    if cursor.result_type.spelling and cursor.kind.name != "CONSTRUCTOR":
        found["result"] = cursor.result_type.spelling
    if cursor.is_static_method():
        found["static"] = True
    if cursor.is_const_method():
        found["const"] = True
    if cursor.is_deleted_method():
        found["deleted"] = True
    if (doc := _comment(cursor)) != "":
        found["doc"] = doc
    return found


def _default_of(parameter: Any) -> str:
    """Return a parameter's default as C++ text; empty without a default, and UNKNOWN_DEFAULT if a macro hides it."""
    if not any(child.kind.is_expression() for child in parameter.get_children()):
        return ""
    texts, previous = [], ""
    named = {at.location.offset: at.referenced for at in parameter.walk_preorder() if at.kind.name in _REFERENCES}
    for token in parameter.get_tokens():
        referenced = named.get(token.location.offset) if previous != "::" else None
        # a call is compiled outside the function's scope, so names have to be fully qualified
        is_elsewhere = referenced is not None and referenced.kind.name not in _PARAMETERS
        texts.append(_full_name(referenced) if is_elsewhere else token.spelling)
        previous = token.spelling
    return " ".join(texts[texts.index("=") + 1 :]) if "=" in texts else UNKNOWN_DEFAULT


def _comment(cursor: Any) -> str:
    """Return the comment before a declaration as plain text."""
    raw = cursor.raw_comment
    if not raw:
        return ""
    lines = [re.sub(r"^\s*(?:/\*[*!]?<?|\*/|\*|//[/!]?<?)\s?", "", line.rstrip()) for line in raw.split("\n")]
    text = "\n".join(re.sub(r"\s*\*/$", "", line) for line in lines)
    return re.sub(r"[\\@](?:brief|short)\s+", "", text).strip()
