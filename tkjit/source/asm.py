"""Finds inline PTX in a preprocessed source and translates it to C++."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from tkjit.ptx import Operand, PtxError, is_ptx, translate
from tkjit.source.lexer import Edit

ASM = frozenset(["asm", "__asm__", "__asm"])
STATEMENT = re.compile(
    r"\b(?:asm|__asm__|__asm)\s*(?:(?:volatile|__volatile__|__volatile|inline|__inline__|goto)\s*)*\("
)
_VOLATILE = re.compile(r"\b(?:volatile|__volatile__|__volatile|goto)\b")
# Matches only the tokens that divide an asm statement, which is faster than finding all tokens: some sources have
# hundreds of statements with 100 operands each.
_PIECE = re.compile(
    r'(?P<string>R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"|"(?:[^"\\\n]|\\.)*")'
    r"|'(?:[^'\\\n]|\\.)*'|//[^\n]*|/\*.*?\*/|\n[ \t]*\#[^\n]*|(?P<mark>::|[()\[\]{}:,])",
    re.DOTALL,
)
# _USUAL_OPERAND matches an operand whose expression has no strings and at most two further levels of brackets, and
# _USUAL_OPERANDS a list of such operands.
_PLAIN = r"[^()\"'/#]*"
_USUAL_OPERAND = re.compile(
    rf'\s*"([^"\n]*)"\s*(\({_PLAIN}(?:\({_PLAIN}(?:\({_PLAIN}\){_PLAIN})*\){_PLAIN})*\))\s*(?=[,:)])'
)
_USUAL_OPERANDS = re.compile(rf"{_USUAL_OPERAND.pattern}(?:,{_USUAL_OPERAND.pattern})*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_CHARACTERS = re.compile(rf"\bchar\b[^;(){{}}\"*]*\[(?:{_STRING.pattern}|[^;\"])*;")
_ARRAY = re.compile(rf"\[[^\[\]]*\]\s*(?:=\s*)?(?:\{{\s*)?((?:{_STRING.pattern}\s*)+)")
_LINE_MARK = re.compile(r"\n[ \t]*#[^\n]*")
_OPERAND = re.compile(r'\s*(?:\[\s*(\w+)\s*\]\s*)?"([^"]*)"\s*(?=\()')
_RAW = re.compile(r'R"(?P<delimiter>[^()\\\s]{0,16})\((?P<text>.*)\)(?P=delimiter)"\Z', re.DOTALL)


class _Statement(NamedTuple):
    """The end of an asm statement, its strings, and the operands in each of the parts that colons separate.

    An operand that ``_USUAL_OPERAND`` does not match is kept as text.
    """

    end: int
    strings: list[str]
    parts: list[list[Operand | str]]
    is_volatile: bool


def constant_texts(text: str) -> list[str]:
    """Collect the contents of a source's constant character arrays, to which operands with the constraint ``C`` refer.

    Raw strings are not found, nor are strings with escapes that Python does not have.

    >>> constant_texts('constexpr char a[] = ".sat", b[4]{"." "rz"}; const char* c[] = {"no"}; asm("" :: [i] "r"(y));')
    ['.sat', '.rz']
    """
    found: dict[str, None] = {}
    for declaration in _CHARACTERS.finditer(text):
        for array in _ARRAY.finditer(_LINE_MARK.sub("", declaration[0])):
            with suppress(PtxError):
                found["".join(map(_string, _STRING.findall(array[1])))] = None
    return list(found)


def asm_statement(text: str, place: int, texts: Callable[[], list[str]]) -> tuple[int, Edit | None]:
    """Return the end of the asm statement that starts at a position, and the edit for the statement.

    The edit is None if the statement is assembly for the host, or if it only gives a declaration its symbol name.

    Parameters
    ----------
    texts : callable
        Returns the ``constant_texts`` of the source. It is called only if an operand needs them.

    Raises
    ------
    PtxError
        If the statement cannot be translated. The error's second argument is the end of the statement.
    """
    statement = _read(text, place)
    if statement is None or not statement.strings:
        return place + 1, None
    try:
        return statement.end, _edit(statement, place, texts)
    except PtxError as error:
        raise PtxError(str(error), statement.end) from None


def _read(text: str, place: int) -> _Statement | None:
    start = STATEMENT.match(text, place)
    if start is None:
        return None
    parts: list[list[Operand | str]] = []
    strings: list[str] = []
    depth, at = 1, start.end()
    begun: int | None = at  # the position where the current operand's text begins
    while piece := _PIECE.search(text, at):
        at = piece.end()
        mark = piece["mark"]
        if mark is None:
            if piece["string"] and depth == 1 and not parts:
                strings.append(piece["string"])
            elif piece["string"] and depth == 1 and begun is not None and _ends_operand(text[begun:at]):
                parts[-1].append(text[begun : piece.start()])
                begun = piece.start()
        elif mark in "([{":
            depth += 1
        elif mark in ")]}" and depth > 1:
            depth -= 1
        elif depth == 1:  # the end of the statement, a comma between operands, or a colon between parts
            if parts and begun is not None:
                parts[-1].append(text[begun : piece.start()])
            if mark == ")":
                return _Statement(at, strings, parts, bool(_VOLATILE.search(start[0])))
            if mark != ",":
                parts += [[] for _ in mark]
            begun = at
            if parts and (usual := _USUAL_OPERANDS.match(text, at)):
                parts[-1] += [Operand(*found) for found in _USUAL_OPERAND.findall(text, at, usual.end() + 1)]
                begun, at = None, usual.end()
    return None


def _ends_operand(text: str) -> bool:
    """Whether a text that ends with a string has a whole operand before it: nvcc accepts a list without the comma."""
    return text[: text.rindex('"', 0, -1)].rstrip().endswith(")")


def _edit(statement: _Statement, place: int, texts: Callable[[], list[str]]) -> Edit | None:
    template = "".join(map(_string, statement.strings))
    if not statement.parts and not statement.is_volatile and re.fullmatch(r"[\w.$@]+", template):
        return None  # names the symbol of a declaration: int f() asm("name");
    operands = []
    for number, part in enumerate(statement.parts[:2]):
        own_operands = [
            operand if isinstance(operand, Operand) else _operand(operand)
            for operand in part
            if isinstance(operand, Operand) or operand.strip()
        ]
        for operand in own_operands:
            if operand.is_output != (number == 0):
                side = "an output" if number else "an input"
                raise PtxError(f"the constraint {operand.constraint!r} is for {side}")
        operands += own_operands
    if not statement.parts:  # without operands, a percent sign is an ordinary character
        template = re.sub(r"%(?!%)", "%%", template)
    if template.strip() and not is_ptx(template, operands):
        return None
    return Edit(place, statement.end, translate(template, operands, texts))


def _operand(text: str) -> Operand:
    """Read ``[name] "=r"(expression)``."""
    text = _LINE_MARK.sub("", text)
    head = _OPERAND.match(text)
    if head is None:
        raise PtxError("cannot read an operand of an asm statement")
    return Operand(head[2], text[head.end() :].strip(), head[1] or "")


def _string(literal: str) -> str:
    if "\\" not in literal and literal[0] == '"':
        return literal[1:-1]
    if raw := _RAW.match(literal):
        return raw["text"]
    try:
        return str(ast.literal_eval(literal.replace("\\?", "?")))
    except (SyntaxError, ValueError):
        raise PtxError(f"cannot read the string {literal[:40]}") from None
