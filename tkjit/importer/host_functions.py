"""Parses host functions of a source: parameters, local type names and constants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tkjit.importer.tokens import closing_angle, split
from tkjit.source.lexer import Token, closing
from tkjit.source.scopes import Function

_VALUE_WORDS = frozenset(
    "const constexpr static auto dim3 int long short unsigned signed size_t std "
    "int32_t uint32_t int64_t uint64_t".split()
)
_ATTRIBUTES = frozenset(["__launch_bounds__", "__attribute__", "alignas", "__align__", "__cluster_dims__", "decltype"])


@dataclass(frozen=True)
class Host:
    """A function's text: its names, and what its local names stand for."""

    name: str
    template: tuple[str, ...]
    parameters: tuple[str, ...]
    is_kernel: bool
    body: list[Token]
    types: dict[str, list[Token]]
    values: dict[str, list[Token]]


def host_of(function: Function) -> Host | None:
    """A function that the outline of a source has; None for what cannot be read as one."""
    head = function.head
    template: list[Token] = []
    if head and head[0].text == "template" and len(head) > 1 and head[1].text == "<":
        end = closing_angle(head, 1)
        if end is None:
            return None
        template, head = head[2:end], head[end + 1 :]
    bracket = _parameters_begin(head)
    if bracket is None:
        return None
    end = closing(head, bracket)
    parameters = head[bracket + 1 : end]
    return Host(
        head[bracket - 1].text,
        tuple(_last_name(part) for part in split(template)),
        tuple(_last_name(part) for part in split(parameters)),
        any(token.text == "__global__" for token in head),
        function.body,
        *_locals(function.body),
    )


def _parameters_begin(head: list[Token]) -> int | None:
    i = 0
    while i < len(head):
        if head[i].text in _ATTRIBUTES and i + 1 < len(head) and head[i + 1].text == "(":
            i = (closing(head, i + 1) or len(head)) + 1
        elif head[i].text == "(" and i and head[i - 1].kind == "word":
            return i
        else:
            i += 1
    return None


def _last_name(part: list[Token]) -> str:
    """The name that a parameter declares."""
    ends = [i for i, token in enumerate(part) if token.text in ("=", "[")]
    named = [token.text for token in part[: ends[0] if ends else len(part)] if token.kind == "word"]
    return named[-1] if named else ""


def _locals(body: list[Token]) -> tuple[dict[str, list[Token]], dict[str, list[Token]]]:
    """A function's names for types, and for numbers and ``dim3``; without those that change."""
    types: dict[str, list[Token]] = {}
    values: dict[str, list[Token]] = {}
    seen: list[str] = []
    for start in _statements(body):
        end = end_of_statement(body, start)
        statement = body[start:end]
        if len(statement) > 3 and statement[0].text == "using" and statement[2].text == "=":
            types[statement[1].text] = statement[3:]
            seen.append(statement[1].text)
        elif (definition := _definition(statement)) is not None:
            name, value = definition
            values[name] = value
            seen.append(name)
    changed = {name for name in seen if seen.count(name) > 1} | _assigned_names(body, seen)
    return (
        {name: value for name, value in types.items() if name not in changed},
        {name: value for name, value in values.items() if name not in changed},
    )


def _statements(body: list[Token]) -> list[int]:
    return [0, *(i + 1 for i, token in enumerate(body) if token.kind == "mark" and token.text in (";", "{", "}"))]


def end_of_statement(body: list[Token], start: int) -> int:
    """The index of the semicolon that ends a statement."""
    i = start
    while i < len(body) and body[i].text != ";":
        i = (closing(body, i) or len(body)) + 1 if body[i].text in ("(", "{", "[") else i + 1
    return i


def _definition(statement: list[Token]) -> tuple[str, list[Token]] | None:
    """``const int n = 3``, ``dim3 grid(a, b)``, ``dim3 block{128}``: the name, and what it stands for."""
    i = 0
    while i < len(statement) and (statement[i].text in _VALUE_WORDS or statement[i].text == "::"):
        i += 1
    if i == 0 or i + 1 >= len(statement) or statement[i].kind != "word":
        return None
    name, behind = statement[i].text, statement[i + 1].text
    is_dim3 = any(token.text == "dim3" for token in statement[:i])
    if behind == "=" and len(split(statement)) == 1:
        return name, statement[i + 2 :]
    if behind in ("(", "{") and closing(statement, i + 1) == len(statement) - 1:
        inside = statement[i + 2 : -1]
        # dim3 grid(a, b) is dim3(a, b); dim3 grid(f()) may be a copy, which is the same
        return name, [word("dim3"), mark("("), *inside, mark(")")] if is_dim3 else inside
    return None


def _assigned_names(body: list[Token], names: Iterable[str]) -> set[str]:
    """Those of some names that are given another value: ``n = 2``, ``n += 1``, ``n++``, ``grid.x = 2``, ``&n``."""
    found, wanted = set(), set(names)
    for i, token in enumerate(body):
        if token.text not in wanted or token.kind != "word":
            continue
        before = body[i - 1] if i else None
        behind = [following.text for following in body[i + 1 : i + 5]] + [""] * 4
        declared = before is not None and (before.kind == "word" or before.text in (">", "*"))
        member = behind[0] == "." and behind[2] == "=" and behind[3] != "="
        own = behind[0] == "=" and behind[1] != "=" and not declared
        counted = behind[0] in ("+", "-", "*", "/") and behind[1] in ("=", behind[0]) and behind[1] != "*"
        if member or own or counted or (before is not None and before.text == "&" and body[i - 2].text in ("(", ",")):
            found.add(token.text)
    return found


def word(text: str) -> Token:
    """A name, of no place."""
    return Token("word", text, 0, 0)


def mark(text: str) -> Token:
    """A mark, of no place."""
    return Token("mark", text, 0, 0)
