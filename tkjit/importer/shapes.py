"""Translates the parts of a launch in host code into tkjit's expressions, or else into C++ expressions."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass

from tkjit.errors import SpecError
from tkjit.importer.model import Part
from tkjit.source.lexer import Token, closing, tokens_of
from tkjit.source.tokens import spell, split, with_angles_apart, words
from tkjit.spec.expr import Expr, parse_list

_SIZES = {"char": 1, "bool": 1, "short": 2, "half": 2, "__half": 2, "bf16": 2, "__nv_bfloat16": 2}
_SIZES |= {"int": 4, "unsigned": 4, "float": 4, "double": 8, "int64_t": 8, "size_t": 8}
_CAST_WORDS = frozenset("int unsigned long size_t uint32_t int32_t int64_t uint64_t".split())


@dataclass(frozen=True)
class Shape:
    """The grid, the block or the shared memory of a launch, as a spec writes it.

    Parameters
    ----------
    text : str
        The expression.
    is_cpp : bool
        Whether it is a C++ expression of the source's own names, a ``CExpr``.
    """

    text: str
    is_cpp: bool = False

    def __str__(self) -> str:
        quoted = f'"{self.text}"'
        return f"CExpr({quoted})" if self.is_cpp else self.text if self.text.isdigit() else quoted


def shape_of(what: str, part: Part, integers: Collection[str]) -> Shape | None:
    """Translate a part of a launch for a spec; None if it is left to the user.

    Parameters
    ----------
    integers : collection of str
        The names that may stay in the expression: the kernel's integer parameters.

    Examples
    --------
    >>> print(shape_of("grid", Part("(n + 255) / 256"), {"n"}), shape_of("block", Part("dim3(16, 8)"), ()))
    "(n + 255) // 256" "16, 8"
    >>> print(shape_of("block", Part("std::min(n, 1024)"), {"n"}))
    "min(n, 1024)"
    >>> print(shape_of("block", Part("NUM_THREADS", compiles=True), ()), shape_of("grid", Part("blocks"), ()))
    CExpr("NUM_THREADS") None

    A grid that uses only the host function's own numbers is left to the user, because it may fit only one problem size.

    >>> print(shape_of("grid", Part("4096 / 64", borrowed=True), ()))
    None
    """
    tokens = _without_dim3(with_angles_apart(tokens_of(part.text)))
    if not tokens or (what == "grid" and part.borrowed and not words(tokens) & set(integers)):
        return None
    simple = _in_python(tokens, integers)
    if simple is not None:
        return Shape(simple)
    return Shape(spell(tokens).replace('"', '\\"'), is_cpp=True) if part.compiles else None


_CANCELLED = re.compile(r"\b(\w+) \* (\w+) // \2\b")


def integers_of(text: str, names: Collection[str]) -> str | None:
    """Translate a C++ expression into a tkjit expression; None if it uses more than integers and the given names.

    >>> integers_of("(64) / 4", ()), integers_of("n * sizeof(float)", {"n"}), integers_of("f(n)", {"n"})
    ('16', 'n * 4', None)
    """
    found = _in_python(with_angles_apart(tokens_of(text)), names)
    if found is None or "," in found:
        return None
    return str(Expr.parse(found).evaluate({})) if not Expr.parse(found).names else found


def _without_dim3(tokens: list[Token]) -> list[Token]:
    """Unwrap ``dim3``: ``dim3(a, b)`` becomes ``a, b``."""
    while len(tokens) > 2 and tokens[0].text == "dim3" and closing(tokens, 1) == len(tokens) - 1:
        tokens = tokens[2:-1]
    return tokens


def _in_python(tokens: list[Token], integers: Collection[str]) -> str | None:
    """Translate tokens into a tkjit expression; None if they use more than integers."""
    found: list[str] = []
    i = 0
    while i < len(tokens):
        if [one.text for one in tokens[i : i + 2]] == ["std", "::"]:
            i += 2
            continue
        token = tokens[i]
        size, index_after = _size(tokens, i)
        if size is not None:
            found.append(str(size))
            i = index_after
            continue
        cast = _cast(tokens, i)
        if cast:
            i += cast
            continue
        number = re.fullmatch(r"(0|[1-9]\d*|0[xX][0-9a-fA-F]+)[uUlLzZ]*", token.text)
        if token.kind == "number" and number:
            found.append(str(int(number[1], 0)))
        elif token.kind == "word" and (token.text in integers or token.text in ("min", "max")):
            found.append(token.text)
        elif token.kind == "mark" and token.text in ("+", "-", "*", "/", "%", "(", ")", ","):
            found.append("//" if token.text == "/" else token.text)  # sizes are not negative, so both round alike
        else:
            return None
        i += 1
    try:
        listed = parse_list(" ".join(found)) if len(split(tokens)) <= 3 else ()
        return ", ".join(_simplified(str(expr)) for expr in listed) or None
    except SpecError:
        return None


def _simplified(text: str) -> str:
    """Drop needless brackets, and a factor by which the expression is then divided: ``rows * n // n`` is ``rows``."""
    return _CANCELLED.sub(r"\1", ast.unparse(ast.parse(text, mode="eval")))


def _size(tokens: list[Token], i: int) -> tuple[int | None, int]:
    """Return the value of ``sizeof(float)`` at ``i``, or None, and the index after it."""
    if tokens[i].text != "sizeof" or i + 3 >= len(tokens) or tokens[i + 1].text != "(" or tokens[i + 3].text != ")":
        return None, i
    return _SIZES.get(tokens[i + 2].text), i + 4


def _cast(tokens: list[Token], i: int) -> int:
    """Count the tokens of a cast to an integer at ``i``, such as ``(unsigned int)``; return 0 if there is none."""
    end = closing(tokens, i) if tokens[i].text == "(" else None
    if end is None or end == i + 1 or end + 1 >= len(tokens):
        return 0
    is_type = all(token.text in _CAST_WORDS for token in tokens[i + 1 : end])
    return end + 1 - i if is_type and (tokens[end + 1].kind in ("word", "number") or tokens[end + 1].text == "(") else 0
