"""Renders a spec's expressions as C++ with minimal parentheses."""

from __future__ import annotations

import ast
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from tkjit.spec.expr import Expr


class _Binds(IntEnum):
    """How tightly an expression's outermost operator binds, from loosest to tightest."""

    COMPARISON = 1
    SUM = 2
    PRODUCT = 3
    SIGN = 4
    NOTHING = 5  # no operator: a name, a number, a call


class _Cpp(NamedTuple):
    text: str
    binds: _Binds

    def inside(self, binds: _Binds) -> str:
        """Return the text as an operand, in parentheses if it binds less tightly than ``binds``."""
        return self.text if self.binds >= binds else f"({self.text})"


_BINARY: dict[type[ast.operator], tuple[str, _Binds]] = {
    ast.Add: ("+", _Binds.SUM),
    ast.Sub: ("-", _Binds.SUM),
    ast.Mult: ("*", _Binds.PRODUCT),
    ast.FloorDiv: ("/", _Binds.PRODUCT),  # tkjit::Int's division rounds down, as Python's // does
    ast.Mod: ("%", _Binds.PRODUCT),
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def render_expression(expr: Expr, spell: Callable[[str], str]) -> str:
    """Render an expression.

    Parameters
    ----------
    spell : callable
        Returns a name's C++ expression, which is a ``tkjit::Int``. All arithmetic in the expression is therefore
        checked for overflow, because a number next to a ``tkjit::Int`` also becomes a ``tkjit::Int``.

    Examples
    --------
    >>> render_expression(Expr.parse("(M + 2) * (N * K)"), lambda name: f"v_{name}")
    '(v_M + 2) * (v_N * v_K)'
    """
    return _cpp(ast.parse(expr.text, mode="eval").body, spell).text


def _cpp(node: ast.expr, spell: Callable[[str], str]) -> _Cpp:
    if not _has_names(node):  # C++ would compute a constant as an int, without checking for overflow
        value = Expr(ast.unparse(node)).evaluate({})
        return _Cpp(str(value), _Binds.SIGN if value < 0 else _Binds.NOTHING)
    match node:
        case ast.UnaryOp(op=ast.USub()):
            operand = _cpp(node.operand, spell).inside(_Binds.NOTHING)  # two minus signs in a row would be a decrement
            return _Cpp(f"-{operand}", _Binds.SIGN)
        case ast.UnaryOp():
            return _cpp(node.operand, spell)
        case ast.BinOp():
            sign, binds = _BINARY[type(node.op)]
            left = _cpp(node.left, spell).inside(binds)
            right = _cpp(node.right, spell).inside(_Binds(binds + 1))  # operators group to the left
            return _Cpp(f"{left} {sign} {right}", binds)
        case ast.Compare():
            return _comparison(node, spell)
        case ast.Call(func=ast.Name(id=function)):
            arguments = ", ".join(_cpp(argument, spell).text for argument in node.args)
            return _Cpp(f"{function}({arguments})", _Binds.NOTHING)
    return _Cpp(spell(ast.unparse(node)), _Binds.NOTHING)


def _comparison(node: ast.Compare, spell: Callable[[str], str]) -> _Cpp:
    """Render a comparison, or for a chain of comparisons their minimum, which is 1 if all hold."""
    terms = [node.left, *node.comparators]
    links = []
    for left, op, right in zip(terms, node.ops, terms[1:], strict=False):
        first, second = (_cpp(term, spell).inside(_Binds.SUM) for term in (left, right))
        if not _has_names(left) and not _has_names(right):
            first = f"tkjit::Int({first})"  # every link of a chain must be a tkjit::Int
        links.append(f"{first} {_COMPARE[type(op)]} {second}")
    if len(links) == 1:
        return _Cpp(links[0], _Binds.COMPARISON)
    return _Cpp(f"min({', '.join(links)})", _Binds.NOTHING)


def _has_names(node: ast.expr) -> bool:
    return bool(Expr(ast.unparse(node)).names)
