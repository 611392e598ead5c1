"""Asks the compiler for the types of kernel parameters and struct members."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tkjit.importer.clang import Error, Parsed, children_of_template, line_of_question, parse, wrapper_of
from tkjit.importer.model import CONSTANT_PARTS, LAUNCH_MEMBERS, Instance, Launch, Part, Type
from tkjit.source.lexer import Token, tokens_of
from tkjit.source.tokens import replace_names, spell

_NUMBERS = frozenset(
    "BOOL CHAR_U CHAR_S UCHAR SCHAR SHORT USHORT INT UINT LONG ULONG LONGLONG ULONGLONG FLOAT DOUBLE".split()
)
_INTEGERS = frozenset(
    "int|unsigned int|long|unsigned long|long long|unsigned long long|short|unsigned short".split("|")
)


@dataclass(frozen=True)
class Resolved:
    """An instance whose parameter types are known.

    Parameters
    ----------
    types : tuple of (str, cursor type)
        The names and types of its parameters.
    """

    launch: Launch
    name: str
    template: tuple[str, ...]
    types: tuple[tuple[str, Any], ...]


def with_members(path: Path, arguments: Sequence[str], resolved: list[Resolved]) -> Iterator[Instance]:
    """Ask the compiler about the parameters of instances, and describe each instance."""
    questions: list[str] = []

    def ask(text: str) -> int:
        questions.append(f"namespace tkjit_import {{ {text} }}")
        return len(questions) - 1

    plans = [_Plan(number, instance, ask) for number, instance in enumerate(resolved)]
    parsed = parse(path, questions, arguments)
    answers = _QueryResults(parsed, path)
    for plan in plans:
        yield plan.with_answers(answers)


class _QueryResults:
    """The compiler's answers to the questions: types by name, and numbers by name."""

    def __init__(self, parsed: Parsed, path: Path) -> None:
        self._parsed, self._path = parsed, path
        self.types = aliases(parsed)
        self.numbers = {
            constant.spelling: constant.enum_value
            for cursor in _answers(parsed)
            if cursor.kind.name == "ENUM_DECL"
            for constant in cursor.get_children()
        }

    def is_wrong(self, index: int) -> bool:
        return bool(errors_at(self._parsed, self._path, index))


class _Plan:
    """Asks about one instance, and builds the instance from the answers."""

    def __init__(self, number: int, resolved: Resolved, ask: Any) -> None:
        self._resolved = resolved
        self._prefix = f"q{number}"
        self._records: dict[str, int] = {}  # maps the C++ expression of a record to its number
        self._ask = ask
        launch = resolved.launch
        function = f"decltype(&{launch.entry})"
        for index, (_, type_) in enumerate(resolved.types):
            self._about(f"parameter<{function}, {index}>", without_reference(type_), depth=2)
        first = f"parameter<{function}, 0>"
        if resolved.types and without_reference(resolved.types[0][1]).kind.name == "RECORD":
            members = ", ".join(f"{self._prefix}_{name} = has_{name}<{first}>" for name in LAUNCH_MEMBERS)
            ask(f"enum : long long {{ {members} }};")
        self._function = function
        self._parts = {what: self._about_part(what, part) for what, part in launch.parts}

    def _about(self, cpp: str, type_: Any, depth: int) -> None:
        """Ask about a record's type and its members' types."""
        if type_.kind.name != "RECORD":
            return
        number = len(self._records)
        self._records[cpp] = number
        name = f"{self._prefix}_{number}"
        numbers = {
            "layout": f"tkjit::global_layout<{cpp}> || tkjit::detail::is_own_layout<{cpp}>::value",
            "parallel": f"tkjit::parallel_layout<{cpp}>",
            "devices": f"num_devices<{cpp}>()",
            **{f"extent{axis}": f"extent<{cpp}>({axis})" for axis in range(4)},
        }
        self._ask(f"enum : long long {{ {', '.join(f'{name}_{key} = {value}' for key, value in numbers.items())} }};")
        self._ask(f"using {name}_element = element_of<{cpp}>::type;")
        if depth:
            for field in type_.get_fields():
                inner = f"std::remove_cvref_t<decltype({cpp}::{field.spelling})>"
                self._about(inner, field.type.get_canonical(), depth - 1)

    def _about_part(self, what: str, part: Part) -> tuple[Part, int]:
        """Ask for a constant part's value, or whether another part compiles with only the kernel's integers in scope.

        Return the part, and the index of the question.
        """
        if what in CONSTANT_PARTS:
            return part, self._ask(f"enum : long long {{ {self._prefix}_{what} = int({part.text}) }};")
        renamed, integers = self._rename(part.text)
        listed = ", ".join(f"int {name}" for name in integers)
        return replace(part, text=renamed), self._ask(
            f"auto {self._prefix}_part({listed}) -> decltype(dim3({renamed}));"
        )

    def _rename(self, text: str) -> tuple[str, list[str]]:
        """Rewrite a host expression with the kernel's own names for the integers that the launch passes."""
        given = dict(zip(self._resolved.launch.arguments, self._resolved.types, strict=False))
        names = {
            host: [Token("word", name, 0, 0)]
            for host, (name, type_) in given.items()
            if host and without_reference(type_).spelling in _INTEGERS
        }
        own_names = [tokens[0].text for tokens in names.values()]
        # A host variable with the name of a kernel parameter is renamed. dim3 is left alone, because it is the type.
        others = {name: [Token("word", f"host_{name}", 0, 0)] for name in own_names if name not in (*names, "dim3")}
        return spell(replace_names(tokens_of(text), {**others, **names})), own_names

    def with_answers(self, answers: _QueryResults) -> Instance:
        launch = self._resolved.launch
        parts = tuple(
            (what, self._answered_part(answers, what, part, index)) for what, (part, index) in self._parts.items()
        )
        parameters = [
            (name, self._type(answers, f"parameter<{self._function}, {index}>", without_reference(type_)))
            for index, (name, type_) in enumerate(self._resolved.types)
        ]
        launch_members = frozenset(name for name in LAUNCH_MEMBERS if answers.numbers.get(f"{self._prefix}_{name}"))
        instance = Instance(
            launch.entry, self._resolved.name, self._resolved.template, launch=replace(launch, parts=parts)
        )
        if parameters and parameters[0][1].kind == "struct":
            struct = parameters[0][1]
            return replace(
                instance,
                struct=launch.struct or struct.cpp,
                parameters=struct.members,
                trailing=tuple(parameters[1:]),
                own=launch_members,
            )
        return replace(instance, parameters=tuple(parameters))

    def _answered_part(self, answers: _QueryResults, what: str, part: Part, index: int) -> Part:
        if answers.is_wrong(index):
            return replace(part, compiles=False)
        number = answers.numbers.get(f"{self._prefix}_{what}") if what in CONSTANT_PARTS else None
        return replace(part, compiles=True, text=part.text if number is None else str(number))

    def _type(self, answers: _QueryResults, cpp: str, type_: Any) -> Type:
        kind, spelling = type_.kind.name, strip_qualifiers(type_.spelling)
        if kind == "POINTER":
            pointee = type_.get_pointee()
            return Type("pointer", spelling, strip_qualifiers(pointee.spelling), pointee.is_const_qualified())
        if kind in _NUMBERS:
            return Type("number", spelling)
        if kind != "RECORD" or cpp not in self._records:
            return Type("other", spelling)
        name = f"{self._prefix}_{self._records[cpp]}"
        numbers = answers.numbers
        extents = tuple(numbers.get(f"{name}_extent{axis}", -1) for axis in range(4))
        element = answers.types[f"{name}_element"].spelling if f"{name}_element" in answers.types else ""
        if numbers.get(f"{name}_parallel"):
            return Type("parallel", spelling, element, extents=extents, num_devices=numbers[f"{name}_devices"])
        if numbers.get(f"{name}_layout"):
            return Type("layout", spelling, element, extents=extents)
        members = tuple(
            (
                field.spelling,
                self._type(
                    answers,
                    f"std::remove_cvref_t<decltype({cpp}::{field.spelling})>",
                    field.type.get_canonical(),
                ),
            )
            for field in type_.get_fields()
        )
        inherited = tuple((base, Type("other", "a base class")) for base in _bases(type_))
        return Type("struct", spelling, members=inherited + members)


def _bases(type_: Any) -> list[str]:
    """Return a record's base classes if they have members, because the questions do not cover inherited members."""
    fields = list(type_.get_fields())
    # The members of the base classes precede the record's own.
    if type_.get_offset(fields[0].spelling) <= 0 if fields else type_.get_size() <= 1:
        return []
    declaration = type_.get_declaration()
    children = [*declaration.get_children(), *children_of_template(declaration)]
    return [child.type.spelling for child in children if child.kind.name == "CXX_BASE_SPECIFIER"]


def without_reference(type_: Any) -> Any:
    canonical = type_.get_canonical()
    return canonical.get_pointee().get_canonical() if canonical.kind.name == "LVALUEREFERENCE" else canonical


def strip_qualifiers(spelling: str) -> str:
    return re.sub(r"\b(const|volatile)\b\s*|\s*\b__restrict\b", "", spelling).strip()


# ---- answers


def aliases(parsed: Parsed) -> dict[str, Any]:
    """Map each type alias that the questions declare to its canonical type."""
    return {
        cursor.spelling: cursor.underlying_typedef_type.get_canonical()
        for cursor in _answers(parsed)
        if cursor.kind.name == "TYPE_ALIAS_DECL"
    }


def _answers(parsed: Parsed) -> Iterator[Any]:
    for cursor in parsed.declarations():
        if cursor.kind.name == "NAMESPACE" and cursor.spelling == "tkjit_import":
            yield from cursor.get_children()


def errors_at(parsed: Parsed, path: Path, index: int) -> list[Error]:
    place = (str(wrapper_of(path)), line_of_question(index))
    return [error for error in parsed.errors if place in error.places]
