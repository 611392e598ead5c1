"""The expression language of specs: parses and evaluates expressions. ``render/`` prints them as C++.

Grids, blocks, shared memory, constraints and output dims use this language. It has 64-bit integers, ``+ - * // %``,
comparisons, ``min``, ``max``, ``cdiv``, the names of dims and integer scalars, a tensor field's padded extents
(``x.batch``, ``x.depth``, ``x.rows``, ``x.cols``, ``x.numel``) and a strided tensor's strides (``x.stride(-1)``).
Expressions mean the same in Python and in C++ (``tkjit/include/tkjit/expr.h``): division rounds down, and an overflow
or a division by zero is an error.
"""

from __future__ import annotations

import ast
import keyword
import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from tkjit.errors import ShapeError, SpecError
from tkjit.spec.advice import advice_on_expression
from tkjit.system.fork_safe import cached_property

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
EXTENTS = ("batch", "depth", "rows", "cols", "numel")

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def _extreme(pick: Callable[..., int], of_symbols: str, terms: tuple[int, ...]) -> int:
    """Return the minimum or maximum. For symbols, use torch's function, because comparing them would add a guard."""
    if all(isinstance(term, int) for term in terms):
        return pick(terms)
    return reduce(getattr(sys.modules["torch"], of_symbols), terms)


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "min": lambda *terms: _extreme(min, "sym_min", terms),
    "max": lambda *terms: _extreme(max, "sym_max", terms),
    "cdiv": lambda a, b: -(-a // b),
}


@dataclass(frozen=True)
class Expr:
    """One integer expression, stored as text; it is parsed and checked on creation.

    Examples
    --------
    >>> Expr.parse("cdiv(N, 256)").evaluate({"N": 1000})
    4
    """

    text: str

    @classmethod
    def parse(cls, text: str | int) -> Expr:
        """Create an expression.

        Raises
        ------
        SpecError
            If the text is not in the language.
        """
        expr = cls(str(text).strip())
        if not expr.is_name:  # most dims are names, and parsing one takes 20 us
            expr._tree  # noqa: B018  the property parses and may raise
        return expr

    @property
    def is_name(self) -> bool:
        """Whether the expression is a single name."""
        return self.text.isascii() and self.text.isidentifier() and not keyword.iskeyword(self.text)

    @cached_property
    def _tree(self) -> ast.expr:
        return _parse(self.text)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that needs a value; ``x.rows`` and ``x.stride(0)`` are one name each."""
        if self.is_name:
            return frozenset([self.text])
        return frozenset(ast.unparse(node) for node in _values(self._tree) if _is_name(node))

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Compute the expression's value; a comparison gives 0 or 1.

        Raises
        ------
        ShapeError
            On division by zero, or if an intermediate value does not fit in 64 bits.
        """
        return _evaluate(self._tree, values, self.text)

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[Expr], tuple[str]]:
        return Expr, (self.text,)  # without the parsed tree


def parse_list(text: str | int | Sequence[str | int]) -> tuple[Expr, ...]:
    """Parse up to three expressions: ``"cdiv(N, 64), M"``, ``256``, ``(16, 16)``."""
    parts: tuple[Expr, ...]
    if callable(text):
        raise SpecError('it is a function; expected expressions over dims and integers, such as "cdiv(N, 256)"')
    if isinstance(text, int) or (isinstance(text, str) and not {"(", ","} & set(text)):
        parts = (Expr.parse(text),)
    elif isinstance(text, str):
        tree = _parse(text, allow_tuple=True)
        if isinstance(tree, ast.Tuple):
            parts = tuple(Expr.parse(ast.unparse(element)) for element in tree.elts)
        else:  # the comma is inside a call
            parts = (Expr(text.strip()),)
            parts[0].__dict__["_tree"] = tree  # so that the property need not parse the text again
    else:
        parts = tuple(Expr.parse(part) for part in text)
    if not 1 <= len(parts) <= 3:
        raise SpecError(f"expected one to three expressions, got {len(parts)}: {text!r}")
    return parts


def _parse(text: str, *, allow_tuple: bool = False) -> ast.expr:
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        words = text.split()
        several = len(words) > 1 and all(word.isidentifier() or word == "..." for word in words)
        texts = ", ".join(f'"{word}"' for word in words)
        advice = f"; write each dim as a separate string: {texts}" if several and not allow_tuple else ""
        raise SpecError(f"not an expression: {text!r} ({error.args[0]}){advice}") from None
    _check(tree.elts if allow_tuple and isinstance(tree, ast.Tuple) else [tree], text)
    return tree


def _check(nodes: list[ast.expr], text: str) -> None:
    for node in nodes:
        children = _children(node)
        if children is None:
            part = ast.unparse(node)
            raise SpecError(
                f"{text!r}{'' if part == text else f': {part!r}'} is not in the expression language "
                f"(integers, + - * // %, comparisons, min, max, cdiv, names){advice_on_expression(node)}"
            )
        _check(children, text)


def _children(node: ast.expr) -> list[ast.expr] | None:
    """Return a node's operands, or None if the language has no such node."""
    match node:
        case ast.Constant(value=value) if type(value) is int and value <= INT64_MAX:
            return []
        case ast.Name():
            return []
        case ast.Attribute(value=ast.Name(), attr=attr) if attr in EXTENTS:
            return []
        case ast.Call() if _is_name(node):
            return []
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            return [node.operand]
        case ast.BinOp() if type(node.op) in _BINARY:
            return [node.left, node.right]
        case ast.Compare() if all(type(op) in _COMPARE for op in node.ops):
            return [node.left, *node.comparators]
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS:
            takes = (2, 2) if name == "cdiv" else (2, 8)
            return node.args if takes[0] <= len(node.args) <= takes[1] else None
        case _:
            return None


def _values(node: ast.expr) -> list[ast.expr]:
    """Return a node and all nodes below it, except function names and the tensor in an attribute like ``x.rows``."""
    return [node, *(below for child in _children(node) or [] for below in _values(child))]


def _is_name(node: ast.expr) -> bool:
    """Return whether a node's value is looked up by name."""
    match node:
        case ast.Name() | ast.Attribute():
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr="stride"), args=[axis], keywords=[]):
            return re.fullmatch(r"-?\d", ast.unparse(axis)) is not None
        case _:
            return False


def _evaluate(node: ast.expr, values: Mapping[str, int], text: str) -> int:
    def go(child: ast.expr) -> int:
        return _evaluate(child, values, text)

    try:
        match node:
            case ast.Constant():
                result = int(node.value)  # type: ignore[arg-type]
            case ast.Name() | ast.Attribute() | ast.Call(func=ast.Attribute()):
                result = values[ast.unparse(node)]
            case ast.UnaryOp():
                result = -go(node.operand) if isinstance(node.op, ast.USub) else go(node.operand)
            case ast.BinOp():
                result = _BINARY[type(node.op)](go(node.left), go(node.right))
            case ast.Compare():
                terms = [go(node.left), *map(go, node.comparators)]
                pairs = zip(terms, terms[1:], strict=False)
                result = int(all(_COMPARE[type(op)](*pair) for op, pair in zip(node.ops, pairs, strict=True)))
            case ast.Call(func=ast.Name(id=function)):
                result = _FUNCTIONS[function](*map(go, node.args))
            case _:
                raise AssertionError(ast.dump(node))  # _check rejects all other nodes
    except ZeroDivisionError:
        raise ShapeError(f"{text}: division by zero") from None
    # comparing one of torch's symbols with a bound would add a guard
    if isinstance(result, int) and not INT64_MIN <= result <= INT64_MAX:
        raise ShapeError(f"{text}: the value does not fit in 64 bits")
    return result
