"""The calls in the lines behind a call, which are compiled with it: they are rehearsed, and nothing is called.

The calling function's source is read from the present line on. What stands there is evaluated with the function's own
variables, as far as it is calls of bound names, numbers and assignments: each call gives a placeholder, as in a batch.
The body of an ``if`` is left out. Whatever is not understood is unknown, and so is all that takes it.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import operator
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from types import BuiltinMethodType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from tkjit.bindings.batch import MOST_REHEARSED
from tkjit.bindings.foresight import calling_frame

_MOST_STATEMENTS = 200
_OWN_REFERENCES = 3  # the frame's, the variable's, and that of the count itself
_UNKNOWN: Any = object()
# no classes derived from these, whose methods are not ours to call
_SEQUENCES: tuple[Any, ...] = (range, list, tuple, type({}.items()))
_PLAIN = (int, float, str, bool, type(None))
_MARKS = ("ptr", "char_ptr", "move")
_FUNCTIONS = (int, float, str, bool, abs, min, max, len, range, round)
# evaluated by a condition, or with other variables
_NOT_READ = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def lines_behind(not_rehearsed: Container[CodeType]) -> Lines | None:
    """The lines behind the present one of the calling function; None if that is not to be read.

    Parameters
    ----------
    not_rehearsed : container of code
        The functions that are not.
    """
    frame = calling_frame()
    return Lines(frame) if frame is not None and frame.f_code not in not_rehearsed else None


class Lines:
    """The lines behind the present one of a function."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame

    @property
    def code(self) -> CodeType:
        return self._frame.f_code

    def rehearse(self) -> None:
        """Evaluate what is understood of them. It may raise any exception."""
        _Reader(self._frame).read_on()


class _Reader(ast.NodeVisitor):
    """Reads on from the line at which a function is. Visiting an expression gives its value, or ``_UNKNOWN``."""

    def __init__(self, frame: FrameType) -> None:
        self._names = {**frame.f_builtins, **frame.f_globals, **_locals_of(frame)}
        self._items: dict[tuple[int, Any], tuple[Any, Any]] = {}  # what would be set, by a container's id and the index
        self._line = frame.f_lineno
        self._body = _body_of(frame)
        self._count = 0

    def read_on(self) -> None:
        with suppress(_End):
            self._read_behind(self._body)

    def _read_behind(self, body: Sequence[ast.stmt]) -> None:
        """The statement of the present line, if it is in a body, and what follows that."""
        for position, one in enumerate(body):
            if one.lineno <= self._line <= (one.end_lineno or one.lineno):
                blocks = [block for name in ("body", "orelse", "finalbody") if (block := getattr(one, name, None))]
                inner = next((block for block in blocks if block[0].lineno <= self._line <= _end_of(block)), None)
                if inner is None:
                    if not isinstance(one, ast.With):  # at the end of which Python is at its first line again
                        self._read([one])
                else:
                    self._read_behind(inner)
                    if isinstance(one, (ast.For, ast.While)):
                        self._read([one])  # from its beginning
                self._read(body[position + 1 :])
                return

    def _read(self, body: Iterable[ast.stmt]) -> None:
        for one in body:
            self._count += 1
            if self._count > _MOST_STATEMENTS:
                raise _End
            self.visit(one)

    # ---- statements

    def visit_Expr(self, node: ast.Expr) -> None:
        self._value(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        self._value(node.value)
        raise _End

    def visit_Raise(self, node: ast.Raise) -> None:
        raise _End

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._bind(target, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._bind(node.target, self._value(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        before, value = self._value(node.target), self._value(node.value)
        are_plain = type(before) in _PLAIN and type(value) in _PLAIN
        self._bind(node.target, _combine(type(node.op), before, value) if are_plain else _UNKNOWN)

    def visit_For(self, node: ast.For) -> None:
        items = self._value(node.iter)
        # of numbers that are counted, one is as good as all
        most = 1 if type(items) is range else MOST_REHEARSED
        for item in islice(items, most) if type(items) in _SEQUENCES and len(items) else [_UNKNOWN]:
            self._bind(node.target, item)
            self._read(node.body)

    def visit_While(self, node: ast.While) -> None:
        self._value(node.test)
        self._read(node.body)

    def visit_With(self, node: ast.With) -> None:
        if any(map(_expects_failure, node.items)):
            self._forget(node)
            return
        for item in node.items:
            if item.optional_vars is not None:
                self._bind(item.optional_vars, _UNKNOWN)
        self._read(node.body)

    def visit_Try(self, node: ast.Try) -> None:
        if node.handlers:
            self._forget(node)
        else:
            self._read([*node.body, *node.finalbody])

    def _bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            is_whole = type(value) in (list, tuple) and len(value) == len(target.elts)
            for position, one in enumerate(target.elts):
                self._bind(one, value[position] if is_whole else _UNKNOWN)
        elif isinstance(target, ast.Subscript):
            owner, index = self._value(target.value), self._value(target.slice)
            if owner is not _UNKNOWN and type(index) in _PLAIN:
                self._items[id(owner), index] = owner, value  # which keeps the container's id

    def _forget(self, node: ast.stmt) -> None:
        """What a statement that is not read may set."""
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                self._names[one.id] = _UNKNOWN

    def generic_visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.stmt):
            self._forget(node)
        elif not isinstance(node, _NOT_READ):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self._value(child)
        return _UNKNOWN

    # ---- expressions

    def _value(self, node: ast.expr | None) -> Any:
        try:
            return self.visit(node) if node is not None else _UNKNOWN
        except Exception:
            return _UNKNOWN

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value if type(node.value) in _PLAIN else _UNKNOWN

    def visit_Name(self, node: ast.Name) -> Any:
        return self._names.get(node.id, _UNKNOWN)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        owner = self._value(node.value)
        if isinstance(owner, ModuleType) and owner.__name__ != "tkjit":
            return vars(owner).get(node.attr, _UNKNOWN)
        is_known = isinstance(owner, ModuleType) or is_bound(owner) or (type(owner) is dict and node.attr == "items")
        return getattr(owner, node.attr) if is_known else _UNKNOWN

    def visit_Call(self, node: ast.Call) -> Any:
        function = self._value(node.func)
        args = list(self._each(node.args))
        kwargs = {one.arg: self._value(one.value) for one in node.keywords if one.arg is not None}
        is_whole = len(kwargs) == len(node.keywords)
        if function is _UNKNOWN or any(one is _UNKNOWN for one in (*args, *kwargs.values())) or not is_whole:
            return _UNKNOWN
        if any(function is one for one in _FUNCTIONS) or _is_scalar(function):
            return (
                function(*args)
                if all(type(one) in _PLAIN or _is_scalar(type(one)) for one in args) and not kwargs
                else _UNKNOWN
            )
        is_items = isinstance(function, BuiltinMethodType) and type(function.__self__) is dict
        return function(*args, **kwargs) if is_items or is_bound(function) else _UNKNOWN

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        found = tuple(self._each(node.elts))
        return _UNKNOWN if any(one is _UNKNOWN for one in found) else found

    def visit_List(self, node: ast.List) -> Any:
        found = list(self._each(node.elts))
        return _UNKNOWN if any(one is _UNKNOWN for one in found) else found

    def visit_Dict(self, node: ast.Dict) -> Any:
        return {self._value(key): self._value(value) for key, value in zip(node.keys, node.values, strict=True)}

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return _combine(type(node.op), self._value(node.left), self._value(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self._value(node.operand)
        return -operand if isinstance(node.op, ast.USub) and _is_operand(operand) else _UNKNOWN

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        owner, index = self._value(node.value), self._value(node.slice)
        if type(index) in _PLAIN and (id(owner), index) in self._items:
            return self._items[id(owner), index][1]
        is_item = type(index) in _PLAIN and type(owner) in (list, tuple, dict)
        return owner[index] if is_item or (index is not _UNKNOWN and is_bound(owner)) else _UNKNOWN

    def _each(self, nodes: Iterable[ast.expr]) -> Iterator[Any]:
        for one in nodes:
            if isinstance(one, ast.Starred):
                several = self._value(one.value)
                yield from several if type(several) in (list, tuple) else [_UNKNOWN]
            else:
                yield self._value(one)


def _combine(kind: type, left: Any, right: Any) -> Any:
    is_known = kind in _OPERATORS and _is_operand(left) and _is_operand(right)
    return _OPERATORS[kind](left, right) if is_known else _UNKNOWN


def _expects_failure(item: ast.withitem) -> bool:
    """Whether it is ``pytest.raises`` or ``suppress``."""
    function = item.context_expr.func if isinstance(item.context_expr, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", "")) in ("raises", "assertRaises", "suppress")


def is_bound(value: Any) -> bool:
    """Whether it is a name or an object of C++, or stands for one: using that calls nothing while it is rehearsed."""
    if isinstance(value, MethodType):
        value = value.__func__
    if isinstance(value, FunctionType):
        return value.__module__ == "tkjit.bindings" and value.__name__ in _MARKS
    return type(value).__module__.split(".")[:2] == ["tkjit", "bindings"]


class _End(BaseException):
    """A function returns: no more of it is read."""


def _is_scalar(function: Any) -> bool:
    """Whether it is one of NumPy's types of numbers."""
    return getattr(function, "__module__", "") == "numpy" and any(
        one.__name__ == "number" for one in getattr(function, "__mro__", ())
    )


def _is_operand(value: Any) -> bool:
    return type(value) in (int, float, bool) or _is_scalar(type(value)) or is_bound(value)


def _end_of(block: Sequence[ast.stmt]) -> int:
    return block[-1].end_lineno or block[-1].lineno


def _locals_of(frame: FrameType) -> dict[str, Any]:
    """A function's variables. Before Python 3.13 the frame then has a copy of its own, which would keep them alive."""
    found = frame.f_locals
    kept = dict(found)
    is_copy = sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if is_copy and sys.getrefcount(found) <= _OWN_REFERENCES:  # nobody else has it from locals()
        found.clear()
    return kept


def _body_of(frame: FrameType) -> Sequence[ast.stmt]:
    """The statements of the code that a frame runs; none where there is no source."""
    code = frame.f_code
    tree = _parsed("".join(linecache.getlines(code.co_filename, frame.f_globals)))
    if code.co_name == "<module>":
        return tree.body
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min((one.lineno for one in node.decorator_list), default=node.lineno)
            if first == code.co_firstlineno:
                return node.body
    return ()


@lru_cache(maxsize=8)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)
