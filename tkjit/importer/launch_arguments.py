"""Reads the arguments of a launch from host code: tensors, extents and allocations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypedDict

from tkjit.importer.contexts import Context, close_over
from tkjit.source.lexer import Token, closing, opening
from tkjit.source.tokens import closing_angle, spell, split


class Arguments(TypedDict):
    """The fields of a ``Launch`` that are about its arguments."""

    given: tuple[str, ...]
    called: dict[str, str]
    allocated: dict[str, str]


def arguments_of(given: list[list[Token]], context: Context, index: int) -> Arguments:
    """Return the arguments of a launch, with the enclosing function's local names and allocations."""
    values = context.host.scopes.names_at(index).values
    return Arguments(
        given=tuple(_given(part, context, index) for part in given),
        called={without_outer_brackets(close_over(value, context, index)[0]): name for name, value in values.items()},
        allocated=dict(_allocations(context, index, names_of(given))),
    )


def _given(part: list[Token], context: Context, index: int) -> str:
    """Return an argument as an expression.

    If an in-place method except ``zero_`` wrote to the argument before the launch, return its name instead.
    """
    text = without_outer_brackets(_pointee(close_over(part, context, index)[0]))
    named = _pointee(part)
    if len(named) != 1 or named[0].text == text:
        return text
    body, name = context.host.body[:index], named[0].text
    written = {
        body[i + 2].text
        for i in range(len(body) - 3)
        if body[i].text == name
        and body[i + 1].text == "."
        and body[i + 2].text.endswith("_")
        and body[i + 3].text == "("
    }
    if written <= {"zero_"}:
        return re.sub(r"::empty(?=(_like)?\()", "::zeros", text, count=1) if written else text
    return name


def _pointee(tokens: list[Token]) -> list[Token]:
    """Strip casts, and ``data_ptr()`` of a tensor: ``(T*)x.data_ptr()`` becomes ``x``."""
    while tokens:
        if tokens[0].text in ("reinterpret_cast", "static_cast", "const_cast") and tokens[-1].text == ")":
            begin = next((i for i, token in enumerate(tokens) if token.text == "("), len(tokens))
            tokens = tokens[begin + 1 : -1]
        elif tokens[0].text == "(" and (end := closing(tokens, 0)) is not None:
            if end == len(tokens) - 1:
                tokens = tokens[1:end]
            elif tokens[end - 1].text in ("*", "__restrict__"):
                tokens = tokens[end + 1 :]
            else:
                break
        else:
            break
    for i, token in enumerate(tokens):
        if token.text in ("data_ptr", "mutable_data_ptr", "const_data_ptr") and i and tokens[i - 1].text == ".":
            is_whole = tokens[-1].text == ")" and opening(tokens, len(tokens) - 1) == _call_of(tokens, i)
            return tokens[: i - 1] if is_whole else tokens  # data_ptr() + offset is not the tensor's start
    return tokens


def _call_of(tokens: list[Token], i: int) -> int | None:
    """Return the index at which the arguments of ``data_ptr<T>(...)`` begin."""
    end = closing_angle(tokens, i + 1) if tokens[i + 1].text == "<" else i
    return None if end is None else end + 1


def _allocations(context: Context, index: int, arguments: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    """Yield each ``cudaMalloc(&p, bytes)`` before a launch.

    Each pair holds the pointer's name, and the number of bytes as an expression of the launch's arguments.
    """
    body = context.host.body
    for i, token in enumerate(body[:index]):
        if token.text in ("cudaMalloc", "cudaMallocAsync", "cudaMallocManaged") and body[i + 1].text == "(":
            given = split(body[i + 2 : closing(body, i + 1)])
            if len(given) > 1 and given[0]:
                yield given[0][-1].text, spell(close_over(given[1], context, i, arguments)[0])


def names_of(given: list[list[Token]]) -> tuple[str, ...]:
    """Return the arguments that are names, and an empty string for any other argument."""
    return tuple(part[0].text if len(part) == 1 and part[0].kind == "word" else "" for part in given)


def without_outer_brackets(tokens: list[Token]) -> str:
    """Return tokens as text, without enclosing brackets: ``((a + b))`` gives ``a + b``."""
    while len(tokens) > 2 and tokens[0].text == "(" and closing(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return spell(tokens)
