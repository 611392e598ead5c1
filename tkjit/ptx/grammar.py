"""Parses the text of an ``asm`` statement: registers, labels, instructions.

Source: PTX ISA, "Syntax" and "Instruction Statements".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<space>\s+ | //[^\n]* | /\*.*?(?:\*/|\Z))
  | (?P<vector>\{\s*%\d+(?:\s*,\s*%\d+)*\s*\})
  | (?P<operand>%[a-zA-Z]?\d+ | %\[\w+\])
  | (?P<special>%%?[A-Za-z_][\w.]*)
  | (?P<opcode>[A-Za-z]\w*(?:(?:\.|::)[\w]+)+)
  | (?P<directive>\.[A-Za-z_]\w*)
  | (?P<word>[A-Za-z_$][\w$]*(?:%=[\w$]*)*)
  | (?P<number>-?(?:0[fF][0-9a-fA-F]{8} | 0[dD][0-9a-fA-F]{16} | 0[xX][0-9a-fA-F]+U? | 0[bB][01]+U?
             | \d+\.\d*(?:[eE][-+]?\d+)? | \d+U?))
  | (?P<mark>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_OPERANDS = re.compile(r"%\d+")


class PtxError(ValueError):
    """Text that is not valid PTX. The message names the expected token and the actual text."""


class Token(NamedTuple):
    kind: str
    text: str
    start: int


class Name(NamedTuple):
    """A statement's operand (``%0``), a register, a special register (``%tid.x``), a number, or ``_``."""

    kind: str  # "operand", "register", "special", "number" or "sink"
    text: str
    is_negated: bool = False  # `!p`, `-x`


class Address(NamedTuple):
    """A memory address: ``[base + offset]``, or ``[base, {coordinates}]`` for a tensor map."""

    base: Name
    offset: int = 0
    coordinates: tuple[Name, ...] = ()


class Vector(NamedTuple):
    """Several operands in braces: ``{a, b}``."""

    parts: tuple[Name, ...]


class Pair(NamedTuple):
    """Two results: ``p|q``."""

    first: Name
    second: Name


PtxOperand = Name | Address | Vector | Pair


class Registers(NamedTuple):
    """A declaration of registers: ``.reg .b32 a, b<2>``."""

    type: str
    names: tuple[str, ...]


class Label(NamedTuple):
    name: str


class Instruction(NamedTuple):
    """An instruction.

    Parameters
    ----------
    opcode : str
        Its first word: ``ld``.
    modifiers : tuple of str
        The words after it: ``shared::cta``, ``v4``, ``f32``.
    guard : Name or None
        The predicate under which it runs.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[PtxOperand, ...]
    guard: Name | None = None

    @property
    def text(self) -> str:
        return ".".join((self.opcode, *self.modifiers))


@dataclass
class Block:
    """Statements in braces, with their own scope for registers and labels."""

    statements: list[Registers | Label | Instruction | Block] = field(default_factory=list)

    def walk(self) -> Iterator[Registers | Label | Instruction]:
        for statement in self.statements:
            if isinstance(statement, Block):
                yield from statement.walk()
            else:
                yield statement


def parse(text: str) -> Block:
    """Parse the statements of a text.

    >>> block = parse("{ .reg .pred p; setp.ne.b32 p, %1, 0; @!p bra done; mov.u32 %0, 1; done: }")
    >>> [type(statement).__name__ for statement in block.walk()]
    ['Registers', 'Instruction', 'Instruction', 'Instruction', 'Label']
    >>> parse("ld.shared.v2.f32 {%0, %1}, [%2 + 16];").statements[0].operands[1].offset
    16

    Raises
    ------
    PtxError
        If the text is not valid PTX.
    """
    parser = _Parser(text)
    return parser.block("")


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [
            Token(match.lastgroup or "", match[0], match.start())
            for match in _TOKEN.finditer(text)
            if match.lastgroup != "space"
        ]
        self._at = 0

    def _error(self, expected: str) -> PtxError:
        start = self._tokens[self._at].start if self._at < len(self._tokens) else len(self._text)
        found = repr(self._text[start : start + 20].split("\n")[0]) if start < len(self._text) else "the end"
        return PtxError(f"expected {expected}, found {found}")

    @property
    def _next(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else Token("end", "", len(self._text))

    def _take(self, text: str) -> bool:
        if self._next.text == text:
            self._at += 1
            return True
        return False

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise self._error(repr(text))

    def _pop(self) -> Token:
        token = self._next
        self._at += 1
        return token

    def block(self, end: str) -> Block:
        block = Block()
        while self._next.text != end or self._next.kind not in ("mark", "end"):
            if self._next.kind == "end":
                raise self._error(repr(end))
            if self._take(";"):
                continue
            if self._take("{"):
                block.statements.append(self.block("}"))
                self._need("}")
            elif self._next.kind == "directive":
                block.statements.append(self._registers())
            else:
                block.statements.append(self._label() or self._instruction())
        return block

    def _registers(self) -> Registers:
        if self._pop().text != ".reg" or self._next.kind != "directive":
            self._at -= 1
            raise self._error("an instruction or .reg")
        kind = self._pop().text[1:]
        if kind in ("v2", "v4"):
            raise self._error("a type of one element")
        names: list[str] = []
        while True:
            if self._next.kind not in ("word", "special"):
                raise self._error("a register's name")
            name = self._pop().text
            if self._take("<"):
                names += [f"{name}{number}" for number in range(int(self._pop().text))]
                self._need(">")
            else:
                names.append(name)
            if not self._take(","):
                break
        self._need(";")
        return Registers(kind, tuple(names))

    def _label(self) -> Label | None:
        following = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else None
        if self._next.kind == "word" and following is not None and following.text == ":":
            name = self._pop().text
            self._at += 1
            return Label(name)
        return None

    def _instruction(self) -> Instruction:
        guard = None
        if self._take("@"):
            is_negated = self._take("!")
            guard = self._name()._replace(is_negated=is_negated)
        if self._next.kind not in ("opcode", "word"):
            raise self._error("an instruction")
        opcode, *modifiers = self._pop().text.split(".")
        operands: list[PtxOperand] = []
        while self._next.text != ";":
            if operands and not self._take(","):
                raise self._error("',' or ';'")
            operands.append(self._operand())
        self._need(";")
        return Instruction(opcode, tuple(modifiers), tuple(operands), guard)

    def _operand(self) -> PtxOperand:
        if self._take("["):
            return self._address()
        if (parts := self._vector()) is not None:
            return Vector(parts)
        name = self._name()
        if self._take("|"):
            return Pair(name, self._name())
        return name

    def _address(self) -> Address:
        base, offset = self._name(), 0
        coordinates: tuple[Name, ...] = ()
        if self._take("+") or (self._next.kind == "number" and self._next.text.startswith("-")):
            offset = _integer(self._pop().text)
        if self._take(","):
            coordinates = self._vector() or (self._name(),)
        self._need("]")
        return Address(base, offset, coordinates)

    def _vector(self) -> tuple[Name, ...] | None:
        if self._next.kind == "vector":
            return tuple([_operand_name(text) for text in _OPERANDS.findall(self._pop().text)])
        if not self._take("{"):
            return None
        names: list[Name] = []
        while not self._take("}"):
            if names:
                self._need(",")
            names.append(self._name())
        return tuple(names)

    def _name(self) -> Name:
        is_negated = self._take("!") or self._take("-")
        token = self._pop()
        if token.text == "_":
            return Name("sink", "_")
        kinds = {"operand": "operand", "special": "special", "word": "register", "number": "number"}
        if token.kind not in kinds:
            self._at -= 1
            raise self._error("an operand")
        return Name(kinds[token.kind], token.text, is_negated)


@cache
def _operand_name(text: str) -> Name:
    return Name("operand", text)


def _integer(text: str) -> int:
    try:
        return int(text.rstrip("U"), 0)
    except ValueError:
        raise PtxError(f"expected an integer, found {text!r}") from None
