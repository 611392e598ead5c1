"""Schemas of operators: what a C++ function says, what a registration elsewhere says, and whether they agree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tkjit.errors import SpecError
from tkjit.extensions.functions import HostFunction, alias_letter
from tkjit.source.lexer import Token, tokens_of


def parse_schema(kernel: str, text: str) -> Any:
    """torch's own reading of a schema.

    Raises
    ------
    SpecError
        If it is none.
    """
    import torch

    try:
        return torch._C.parse_schema(text)
    except RuntimeError as error:
        raise SpecError(f"{kernel}: schema= is {text!r}: {str(error).splitlines()[0]}") from None


def schema_in(kernel: str, path: Path, name: str) -> str:
    """The schema that a file registers for an operator: ``ops.def("name(Tensor x) -> Tensor")``.

    Raises
    ------
    SpecError
        If the file is not there, or registers no such operator, or two different ones.
    """
    try:
        tokens = tokens_of(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise SpecError(f"{kernel}: schema_from= is {path}: {error.strerror}") from None
    texts = dict.fromkeys(" ".join(text.split()) for text in definitions_in(tokens))
    found = [text for text in texts if text.split("(")[0].rpartition("::")[2] == name]
    if len(found) > 1:
        raise SpecError(f"{kernel}: {path.name} registers {name} twice: {' and '.join(found)}")
    if not found:
        known = sorted({text.split("(")[0] for text in texts if "(" in text})
        raise SpecError(
            f"{kernel}: {path.name} registers no operator {name}; it registers {', '.join(known) or 'none'}"
        )
    return found[0]


def check_agreement(kernel: str, schema: Any, function: HostFunction) -> None:
    """Refuse a schema that is not the function's.

    Raises
    ------
    SpecError
        With the first difference.
    """
    own = parse_schema(kernel, function.schema)
    if (given := len(schema.arguments)) != (taken := len(own.arguments)):
        raise SpecError(f"{kernel}: the schema has {given} arguments, and {function.bare_name} takes {taken}")
    for argument, parameter in zip(schema.arguments, own.arguments, strict=True):
        told, takes = str(argument.type), str(parameter.type)
        if told != takes and (told, takes) != ("number", "float"):  # a Scalar
            raise SpecError(
                f"{kernel}: {argument.name} is {told} in the schema, and {function.bare_name} takes {takes}"
            )
    told, returns = (", ".join(str(one.type) for one in each.returns) or "nothing" for each in (schema, own))
    if told != returns:
        raise SpecError(f"{kernel}: the schema returns {told}, and {function.bare_name} returns {returns}")


def schema_text(schema: Any, defaults: Mapping[str, Any] = MappingProxyType({})) -> str:
    """A schema's text without the name: with a letter for each tensor that is written to, and more defaults."""
    text = re.sub(r"\(\$(\d+)! -> \)", lambda found: f"({alias_letter(int(found[1]))}!)", str(schema))
    inside, results = text[text.index("(") + 1 :].rsplit(") -> ", 1)
    parts = [part.strip() for part in _split(inside)] if inside else []
    named = iter(schema.arguments)
    listed = []
    for part in parts:
        if part == "*":
            listed.append(part)
            continue
        argument = next(named)
        if argument.name in defaults:
            part = f"{part.partition('=')[0]}={_literal(defaults[argument.name])}"
        listed.append(part)
    return f"({', '.join(listed)}) -> {results}"


def definitions_in(tokens: list[Token]) -> list[str]:
    """The texts that calls of ``def`` begin with; neighbouring literals are one."""
    found = []
    for i, token in enumerate(tokens):
        if token.text != "def" or token.kind != "word" or i + 1 >= len(tokens) or tokens[i + 1].text != "(":
            continue
        end = i + 2
        while end < len(tokens) and tokens[end].kind == "string":
            end += 1
        found.append("".join(_content(each.text) for each in tokens[i + 2 : end]))
    return found


def _content(literal: str) -> str:
    raw = re.fullmatch(r'R"(\w*)\((.*)\)\1"', literal, re.DOTALL)
    return raw[2] if raw else literal[1:-1].replace('\\"', '"')


def _split(text: str) -> list[str]:
    """What stands between the commas outside of brackets and quotes."""
    return re.findall(r'(?:[^,("\[]|\([^)]*\)|"[^"]*"|\[[^\]]*\])+', text)


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
