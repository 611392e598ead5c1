"""Looks up names in the declarations of headers. tkjit reads the headers once and caches the result."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tkjit.system import files

UNKNOWN_DEFAULT = "..."  # a parameter has a default, but a macro hides it


class Declared(NamedTuple):
    """A name in a namespace, with the facts that ``read_declarations`` has found about it."""

    namespace: str
    name: str
    facts: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.facts["kind"])

    @property
    def text(self) -> str:
        """The fully qualified name, which C++ finds from any scope."""
        return f"::{self.namespace}::{self.name}" if self.namespace else f"::{self.name}"

    @property
    def qualified(self) -> str:
        return self.text.removeprefix("::")

    @property
    def overloads(self) -> list[dict[str, Any]]:
        return list(self.facts.get("overloads", []))

    @property
    def signatures(self) -> list[str]:
        """The signatures of its overloads, for users to read."""
        return [signature(self.qualified, overload) for overload in self.overloads]


def signature(name: str, overload: dict[str, Any]) -> str:
    """Format an overload: ``template <class T> void sort(T first, T last)``."""
    template = f"template <{', '.join(overload['template'])}> " if "template" in overload else ""
    parameters = [f"{kind} {parameter}".strip() for parameter, kind, _ in overload["parameters"]]
    result = f"{overload['result']} " if "result" in overload else ""
    return f"{template}{result}{name}({', '.join(parameters)})"


class Declarations:
    """The names of a set of headers, by namespace."""

    def __init__(self, namespaces: dict[str, dict[str, Any]]) -> None:
        self._namespaces = namespaces

    @classmethod
    def read(cls, path: Path) -> Declarations:
        return cls(json.loads(files.read(path)))

    def find(self, namespace: str, name: str) -> Declared | None:
        facts = self._namespaces.get(namespace, {}).get(name)
        return Declared(namespace, name, facts) if facts is not None else None

    def names(self, namespace: str) -> list[str]:
        """Return the names in a namespace that are valid in Python, including inner namespaces."""
        inside = f"{namespace}::" if namespace else ""
        nested = {path[len(inside) :].split("::")[0] for path in self._namespaces if path.startswith(inside) and path}
        own = [name for name in self._namespaces.get(namespace, {}) if name.isidentifier()]
        return sorted({*own, *nested} - {""})

    def has_namespace(self, namespace: str) -> bool:
        return any(path == namespace or path.startswith(f"{namespace}::") for path in self._namespaces)

    def class_of(self, type_name: str) -> Declared | None:
        """Return the class or class template of a type, or None. The type's name may contain inline namespaces."""
        return self._class_of(without_arguments(type_name))

    @cache  # noqa: B019  bounded by the number of classes
    def _class_of(self, plain: str) -> Declared | None:
        *scopes, name = plain.split("::")
        holders = [path for path, names in self._namespaces.items() if "members" in names.get(name, {})]
        own = "::".join(scopes)
        for path in sorted(holders, key=lambda path: path != own):
            if path == own or (path and self._leads_to(path, scopes)):
                return Declared(path, name, self._namespaces[path][name])
        return None

    def _leads_to(self, path: str, scopes: list[str]) -> bool:
        """Return whether a name's scopes are those of a namespace.

        Scopes that the namespace's path lacks count as inline namespaces, unless one of them is a known class.
        """
        parts, before = path.split("::"), ""
        for scope in scopes:
            if parts and parts[0] == scope:
                before = f"{before}::{parts.pop(0)}".removeprefix("::")
            elif "members" in self._namespaces.get(before, {}).get(scope, {}):
                return False
        return not parts

    def members(self, type_name: str) -> dict[str, Any]:
        """Return the members that libclang shows for a type's class and its bases."""
        found: dict[str, Any] = {}
        pending, seen = [type_name], set()
        while pending:
            plain = without_arguments(pending.pop(0))
            declared = self._class_of(plain)
            if declared is None and (plain in seen):
                continue
            seen.add(plain)
            if declared is not None:
                for name, facts in declared.facts["members"].items():
                    found.setdefault(name, facts)
                pending += [base for base in declared.facts["bases"] if without_arguments(base) not in seen]
        return found


def without_arguments(type_name: str) -> str:
    """Remove the template arguments at the end of a name: ``a::b<int>::c<d>`` becomes ``a::b<int>::c``."""
    text, depth = type_name.strip(), 0
    if not text.endswith(">"):
        return text
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ">") - (text[at] == "<")
        if depth == 0:
            return text[:at]
    return text
