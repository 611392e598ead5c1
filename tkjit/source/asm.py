"""Finds inline PTX in a preprocessed source, and makes it C++."""

from __future__ import annotations

import ast
import re

from tkjit.ptx import Operand, PtxError, is_ptx, translate
from tkjit.source.lexer import Edit, Token, closing

ASM = frozenset(["asm", "__asm__", "__asm"])
_QUALIFIERS = frozenset(["volatile", "__volatile__", "__volatile", "inline", "__inline__", "goto"])
_RAW = re.compile(r'(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\((?P<text>.*)\)(?P=delimiter)"\Z', re.DOTALL)


def asm_statement(text: str, tokens: list[Token]) -> Edit | None:
    """The edit of the statement that begins with the first token; None if it is a host's, or a declaration's label.

    Raises
    ------
    PtxError
    """
    opening = 1
    while opening < len(tokens) and tokens[opening].text in _QUALIFIERS:
        opening += 1
    end = closing(tokens, opening) if opening < len(tokens) and tokens[opening].text == "(" else None
    if end is None:
        return None
    parts = _parts(tokens[opening + 1 : end])
    words = parts[0]
    if not words or any(word.kind != "string" for word in words):
        return None
    template = "".join(_string(word.text) for word in words)
    if opening == 1 and len(parts) == 1 and re.fullmatch(r"[\w.$@]+", template):
        return None  # a declaration's name for the linker
    operands = [_operand(text, part, i) for i, one in enumerate(parts[1:3]) for part in _split(one, ",") if part]
    if len(parts) == 1:  # without operands a percent sign means itself
        template = re.sub(r"%(?!%)", "%%", template)
    if template.strip() and not is_ptx(template, operands):
        return None
    return Edit(tokens[0].start, tokens[end].end, translate(template, operands))


def _parts(tokens: list[Token]) -> list[list[Token]]:
    """The template, the outputs, the inputs and what is clobbered; ``::`` is two colons."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}")) if token.kind == "mark" else 0
        if depth == 0 and token.kind == "mark" and token.text in (":", "::") and _divides(found[-1]):
            found += [[] for _ in token.text]
        else:
            found[-1].append(token)
    return found


def _divides(before: list[Token]) -> bool:
    """Whether a colon here ends a part: behind a string, an operand's bracket, or another colon."""
    return not before or before[-1].kind == "string" or before[-1].text in (")", "]")


def _split(tokens: list[Token], mark: str) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}")) if token.kind == "mark" else 0
        if depth == 0 and token.text == mark:
            found.append([])
        else:
            found[-1].append(token)
    return found


def _operand(text: str, tokens: list[Token], part: int) -> Operand:
    """Read ``[name] "=r"(expression)``."""
    name = ""
    if tokens[0].text == "[" and len(tokens) > 2:
        name, tokens = tokens[1].text, tokens[3:]
    if len(tokens) < 3 or tokens[0].kind != "string" or tokens[1].text != "(":
        raise PtxError("an operand of an asm statement is not understood")
    constraint = _string(tokens[0].text)
    if (constraint[:1] in ("=", "+")) != (part == 0):
        raise PtxError(f"the constraint {constraint!r} is {'an input' if part == 0 else 'an output'}'s")
    return Operand(constraint, text[tokens[1].start : tokens[-1].end], name)


def _string(literal: str) -> str:
    if raw := _RAW.match(literal):
        return raw["text"]
    try:
        value = ast.literal_eval(literal.removeprefix("u8").lstrip("uUL").replace("\\?", "?"))
    except (SyntaxError, ValueError):
        raise PtxError(f"the string {literal[:40]} is not understood") from None
    return str(value)
