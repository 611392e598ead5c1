"""Parses host functions of a source: parameters, local type names and constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tkjit.source.lexer import Token, closing
from tkjit.source.scopes import Function
from tkjit.source.tokens import closing_angle, split

_VALUE_WORDS = frozenset(
    "const constexpr static auto dim3 int long short unsigned signed size_t std "
    "int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t uint bool".split()
)
_ATTRIBUTES = frozenset(["__launch_bounds__", "__attribute__", "alignas", "__align__", "__cluster_dims__", "decltype"])


class Names(NamedTuple):
    """A function's local names at one place, with their definitions. ``values`` are numbers and ``dim3`` values."""

    types: dict[str, list[Token]]
    values: dict[str, list[Token]]


class Scopes:
    """The blocks of a function's body, and the definitions of the names in each."""

    def __init__(self, body: list[Token]) -> None:
        self._body = body
        self._ends = _ends_of_blocks(body)
        self._found: dict[int, Names] = {}
        self._assigned: dict[tuple[str, int, int], bool] = {}

    def names_at(self, index: int) -> Names:
        """Return the names in scope at a token with their definitions, except names that are assigned again."""
        if index not in self._found:
            self._found[index] = self._names_at(index)
        return self._found[index]

    def _names_at(self, index: int) -> Names:
        found = Names({}, {})
        around = [(begin + 1, end) for begin, end in self._ends.items() if begin < index < end]
        for first, end in [(0, len(self._body)), *around]:
            for start in self._statements(first, index):
                stop = end_of_statement(self._body, start)
                statement = self._body[start:stop]
                alias, definition = _alias(statement), _definition(statement)
                if alias is not None:
                    found.types[alias[0]] = alias[1]
                elif definition is not None:
                    name, value = definition
                    found.values.pop(name, None)
                    if not self._is_assigned(name, stop, end):
                        found.values[name] = value
        return found

    def _statements(self, first: int, until: int) -> Iterator[int]:
        """Yield the indices at which a block's statements begin, up to a token; nested blocks are skipped."""
        i, begins = first, True
        while i < until:
            if begins:
                i += _label(self._body, i)
                i += _checks(self._body, i)
                yield i
            end = self._ends.get(i)
            if end is not None and end > until:
                return
            begins = end is not None or (self._body[i].kind == "mark" and self._body[i].text in (";", "}"))
            i = (i if end is None else end) + 1

    def _is_assigned(self, name: str, start: int, end: int) -> bool:
        place = (name, start, end)
        if place not in self._assigned:
            self._assigned[place] = _is_assigned(self._body[start:end], name)
        return self._assigned[place]


@dataclass(frozen=True)
class Host:
    """A function's text: its signature, its body, and the definitions of its local names."""

    name: str
    template: tuple[str, ...]
    defaults: dict[str, list[Token]]
    parameters: tuple[str, ...]
    is_kernel: bool
    body: list[Token]
    scopes: Scopes = field(repr=False)


def host_of(function: Function) -> Host | None:
    """Read a function of a source's outline; None if its signature cannot be read."""
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
        {_last_name(part): value for part in split(template) if (value := _default(part))},
        tuple(_last_name(part) for part in split(parameters)),
        any(token.text == "__global__" for token in head),
        function.body,
        Scopes(function.body),
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
    """Return the name that a parameter declares."""
    ends = [i for i, token in enumerate(part) if token.text in ("=", "[")]
    named = [token.text for token in part[: ends[0] if ends else len(part)] if token.kind == "word"]
    return named[-1] if named else ""


def _default(part: list[Token]) -> list[Token]:
    """Return a template parameter's default; empty if it has none."""
    equals = next((i for i, token in enumerate(part) if token.text == "="), len(part))
    return part[equals + 1 :]


def _ends_of_blocks(body: list[Token]) -> dict[int, int]:
    """Map each opening brace to its closing brace, outer blocks first."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for i, token in enumerate(body):
        if token.kind == "mark" and token.text == "{":
            opened.append(i)
        elif token.kind == "mark" and token.text == "}" and opened:
            found[opened.pop()] = i
    return dict(sorted(found.items()))


def _label(body: list[Token], i: int) -> int:
    """Return the number of tokens of a label, such as ``case 64:`` or ``default:``."""
    if body[i].text == "default" and i + 1 < len(body) and body[i + 1].text == ":":
        return 2
    if body[i].text != "case":
        return 0
    end = next((j for j in range(i, len(body)) if body[j].text in (":", ";", "{")), i)
    return end + 1 - i if body[end].text == ":" and end + 1 < len(body) else 0


def _checks(body: list[Token], i: int) -> int:
    """Count the tokens before a statement that are macros without a semicolon, such as ``CHECK(x) CHECK(y)``."""
    start = i
    while i + 1 < len(body) and body[i].kind == "word" and body[i].text.isupper() and body[i + 1].text == "(":
        end = closing(body, i + 1)
        if end is None or end + 1 >= len(body) or body[end + 1].kind != "word":
            break
        i = end + 1
    return i - start


def end_of_statement(body: list[Token], start: int) -> int:
    """Return the index of the semicolon that ends a statement."""
    i = start
    while i < len(body) and body[i].text != ";":
        i = (closing(body, i) or len(body)) + 1 if body[i].text in ("(", "{", "[") else i + 1
    return i


def _definition(statement: list[Token]) -> tuple[str, list[Token]] | None:
    """Return the name and value of ``const int n = 3``, ``dim3 grid(a, b)`` or ``dim3 block{128}``."""
    i = 0
    while i < len(statement) and (statement[i].text in _VALUE_WORDS or statement[i].text == "::"):
        i += 1
    if i == 0 or i + 1 >= len(statement) or statement[i].kind != "word":
        return None
    name, next_mark = statement[i].text, statement[i + 1].text
    is_dim3 = any(token.text == "dim3" for token in statement[:i])
    if next_mark == "=" and len(split(statement)) == 1:
        return name, statement[i + 2 :]
    if next_mark in ("(", "{") and closing(statement, i + 1) == len(statement) - 1:
        inside = statement[i + 2 : -1]
        # dim3 grid(a, b) is dim3(a, b). dim3 grid(f()) may be a copy, for which dim3(f()) is also right.
        return name, [word("dim3"), mark("("), *inside, mark(")")] if is_dim3 else inside
    return None


def _alias(statement: list[Token]) -> tuple[str, list[Token]] | None:
    """Return the name and type of ``using t = g<2>``."""
    if len(statement) < 4 or statement[0].text != "using":
        return None
    equals = 2
    if statement[2].text == "[":  # [[maybe_unused]]
        equals = (closing(statement, 2) or 2) + 1
    if equals + 1 >= len(statement) or statement[equals].text != "=":
        return None
    return statement[1].text, statement[equals + 1 :]


def _is_assigned(body: Sequence[Token], name: str) -> bool:
    """Whether a name may get another value: ``n = 2``, ``n += 1``, ``n++``, ``grid.x = 2``, ``&n``."""
    for i, token in enumerate(body):
        if token.text != name or token.kind != "word":
            continue
        before = body[i - 1] if i else None
        following_texts = [following.text for following in body[i + 1 : i + 5]] + [""] * 4
        declared = before is not None and (before.kind == "word" or before.text in (">", "*"))
        member = following_texts[0] == "." and following_texts[2] == "=" and following_texts[3] != "="
        itself = following_texts[0] == "=" and following_texts[1] != "=" and not declared
        counted = (
            following_texts[0] in ("+", "-", "*", "/")
            and following_texts[1] in ("=", following_texts[0])
            and following_texts[1] != "*"
        )
        if (
            member
            or itself
            or counted
            or (before is not None and before.text == "&" and body[i - 2].text in ("(", ","))
        ):
            return True
    return False


def word(text: str) -> Token:
    """Create a name token without a place in the source."""
    return Token("word", text, 0, 0)


def mark(text: str) -> Token:
    """Create a mark token without a place in the source."""
    return Token("mark", text, 0, 0)
