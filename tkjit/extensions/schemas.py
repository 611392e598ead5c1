"""Reads the schemas of operators from C++ functions and from registrations, and checks that they agree."""

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
    """Parse a schema with torch's own parser.

    Raises
    ------
    SpecError
        If it is not a valid schema.
    """
    import torch

    try:
        return torch._C.parse_schema(text)
    except RuntimeError as error:
        raise SpecError(f"{kernel}: schema= is {text!r}: {str(error).splitlines()[0]}") from None


def schema_in(kernel: str, path: Path, name: str) -> str:
    """Find the schema that a file registers for an operator: ``ops.def("name(Tensor x) -> Tensor")``.

    Raises
    ------
    SpecError
        If the file cannot be read, or registers no schema for the operator, or two different ones.
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
    """Check that a schema matches a function.

    Raises
    ------
    SpecError
        If it does not. The message gives the first difference.
    """
    own = parse_schema(kernel, function.schema)
    if (given := len(schema.arguments)) != (taken := len(own.arguments)):
        raise SpecError(f"{kernel}: the schema has {given} arguments, but {function.bare_name} takes {taken}")
    for argument, parameter in zip(schema.arguments, own.arguments, strict=True):
        declared, actual = str(argument.type), str(parameter.type)
        if declared != actual and (declared, actual) != ("number", "float"):  # a function takes a Scalar as a double
            raise SpecError(
                f"{kernel}: {argument.name} is {declared} in the schema, but {function.bare_name} takes {actual}"
            )
    declared, returned = (", ".join(str(one.type) for one in each.returns) or "nothing" for each in (schema, own))
    if declared != returned:
        raise SpecError(f"{kernel}: the schema returns {declared}, but {function.bare_name} returns {returned}")


def schema_text(schema: Any, defaults: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return a schema's text without its name, with alias letters for written tensors and with the given defaults."""
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
    """Return, for each call of ``def``, the string with which its arguments begin. Adjacent literals are joined."""
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
    """Split a text at the commas outside of brackets and quotes."""
    return re.findall(r'(?:[^,("\[]|\([^)]*\)|"[^"]*"|\[[^\]]*\])+', text)


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
