"""Describes a variant's launch as data: a launch program, which the runtime runs at each launch.

A launch program does what the launch function from ``render/launcher.py`` does, but nothing has to be compiled for it.
It is used if NVRTC compiles the device code. ``runtime/launch_program.h`` defines the operations.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from tkjit.errors import ShapeError
from tkjit.render.globals import computed_members
from tkjit.render.launch_names import launch_names, origin_of
from tkjit.render.text import stride_axis
from tkjit.spec import CExpr, Field, Spec, Variant
from tkjit.spec.checks import DEV_IDX, NUM_DEVICES
from tkjit.spec.expr import EXTENTS, Expr

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.FloorDiv: "divide",
    ast.Mod: "remainder",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}
_FUNCTIONS = {"min": "minimum", "max": "maximum", "cdiv": "cdiv"}

Operation = tuple["int | str | tuple[Operation, ...]", ...]


class LaunchProgram(NamedTuple):
    """A launch program whose offsets and sizes are not known yet.

    Parameters
    ----------
    operations : tuple
        The operations in order. The first item of each is its name, and the others are its operands: a number, or a C++
        expression for an offset or a size, or the operations that ``each`` repeats. The operations ``argument`` and
        ``computed`` fill a plain parameter of the entry, and depend on its type.
    texts : tuple of str
        The texts for error messages, to which operands refer by index.
    """

    operations: tuple[Operation, ...]
    texts: tuple[str, ...]

    @property
    def layout(self) -> list[str]:
        """The C++ expressions among the operands, each of them once."""
        return list(dict.fromkeys(_expressions(self.operations)))


def launch_program(spec: Spec, variant: Variant) -> LaunchProgram:
    """Return the launch program of a variant; the spec is one that ``with_names`` has returned."""
    return _Writer(spec, variant).program()


def _expressions(operations: tuple[Operation, ...]) -> Iterator[str]:
    for _, *operands in operations:
        for operand in operands:
            if isinstance(operand, str):
                yield operand
            elif isinstance(operand, tuple):
                yield from _expressions(operand)


class _Writer:
    def __init__(self, spec: Spec, variant: Variant) -> None:
        self._spec = spec
        chosen = {**dict(variant.values), **dict(variant.configuration)}
        self._constants = {name: int(chosen[name]) for name in spec.compile_time_integers}
        self._index = {f.name: i for i, f in enumerate(spec.struct_fields)}
        # the positions of the kernel's parameters that are not the struct
        names, first = (spec.taken, 0) if spec.args else (spec.trailing, 1)
        self._positions = {name: position for position, name in enumerate(names, start=first)}
        self._operations: list[Operation] = []
        self._locals: dict[str, int] = {}
        self._texts: list[str] = []

    def program(self) -> LaunchProgram:
        self._derived()
        self._computed()
        self._arguments()
        self._shape()
        return LaunchProgram(tuple(self._operations), tuple(self._texts))

    def _add(self, name: str, *operands: int | str | tuple[Operation, ...]) -> None:
        self._operations.append((name, *operands))

    def _text(self, text: str) -> int:
        self._texts.append(text)
        return len(self._texts) - 1

    # ---- integers

    def _derived(self) -> None:
        """Compute every derived dim that the launch uses, once."""
        for name, expr in launch_names(self._spec)[1]:
            self._expression(expr)
            self._add("set_local", len(self._locals))
            self._locals[name] = len(self._locals)

    def _value_of(self, name: str) -> None:
        """Push the value that a call gives to a name; ``render/launcher.py`` renders the same."""
        origin = origin_of(self._spec, name)
        arg = self._index[origin.name]
        if origin.is_parallel and name in (DEV_IDX, NUM_DEVICES):
            self._add("device_index" if name == DEV_IDX else "device_count", arg)
        elif name == origin.name:
            self._add("integer", arg)
        elif "." in name:
            _, extent = name.split(".")
            if axis := stride_axis(extent, len(origin.dims)):
                self._add("stride", arg, int(axis))
            elif extent == "numel":
                self._add("numel", arg)
            else:
                self._add("padded_extent", arg, EXTENTS.index(extent))
        else:
            dim = self._spec.binder(name)[1]
            of_first = "_of_first" if origin.is_list else ""
            if origin.leading:
                self._add(f"extent_from_end{of_first}", arg, len(origin.dims) - dim)
            else:
                self._add(f"extent{of_first}", arg, dim)

    def _expression(self, expr: Expr) -> None:
        self._node(ast.parse(expr.text, mode="eval").body)

    def _node(self, node: ast.expr) -> None:
        text = ast.unparse(node)
        if Expr(text).names <= self._constants.keys():
            with suppress(ShapeError):  # if it overflows, so does the computation at the launch
                self._add("number", Expr(text).evaluate(self._constants))
                return
        match node:
            case ast.UnaryOp(op=ast.USub()):
                self._node(node.operand)
                self._add("negate")
            case ast.UnaryOp():
                self._node(node.operand)
            case ast.BinOp():
                self._node(node.left)
                self._node(node.right)
                self._add(_BINARY[type(node.op)])
            case ast.Compare():
                self._comparison(node)
            case ast.Call(func=ast.Name(id=function)):
                self._node(node.args[0])
                for argument in node.args[1:]:
                    self._node(argument)
                    self._add(_FUNCTIONS[function])
            case _ if text in self._locals:
                self._add("local", self._locals[text])
            case _ if text in self._constants:
                self._add("number", self._constants[text])
            case ast.Constant(value=int(number)):
                self._add("number", number)
            case _:
                self._value_of(text)

    def _comparison(self, node: ast.Compare) -> None:
        terms = [node.left, *node.comparators]
        for i, op in enumerate(node.ops):
            self._node(terms[i])
            self._node(terms[i + 1])
            self._add(_COMPARE[type(op)])
            if i:
                self._add("minimum")  # 1 if all comparisons of a chain hold

    # ---- parameters

    def _computed(self) -> None:
        """Fill what no argument fills. This comes first, because an overflow is reported before anything else."""
        for name, expr in computed_members(self._spec).items():
            self._expression(expr)
            if name in self._positions:
                self._add("computed", self._positions[name], self._text(name))
            else:
                self._add("store_computed", *_place(name), 1, self._text(name))

    def _arguments(self) -> None:
        is_plain = self._spec.args  # then the types of the parameters are the source's, and a number may not fit
        for f in self._spec.struct_fields:
            arg = self._index[f.name]
            if f.name in self._positions:
                self._add("argument", self._positions[f.name], arg, self._text(f.name) if is_plain else -1)
            else:
                self._operations += _stores(f, arg)

    # ---- the shape

    def _shape(self) -> None:
        for what, part in self._spec.launch.shape:
            if not part or isinstance(part, CExpr):
                continue
            for expr in part:
                self._expression(expr)
            self._add(what, *([len(part)] if what != "shared_memory" else []))
            if what == "grid" and any("//" in expr.text for expr in part):
                self._check_blocks(", ".join(expr.text for expr in part))
        if self._spec.cluster:
            self._add("cluster", *(*self._spec.cluster, 1, 1)[:3])
        if self._spec.pdl:
            self._add("overlaps")
        if self._spec.cooperative:
            self._add("cooperative")

    def _check_blocks(self, grid: str) -> None:
        """Reject a grid that rounding down leaves without blocks although every tensor has elements."""
        tensors = [f for f in self._spec.struct_fields if f.is_tensor and not f.is_list and not f.is_parallel]
        self._add("number", 1)
        for f in tensors:
            self._add("numel", self._index[f.name])
            self._add("minimum")
        self._add("check_blocks", self._text(grid))


def _place(member: str) -> tuple[str, str]:
    """Return the offset and the size of a member of the struct."""
    return f"offsetof(Globals, {member})", f"sizeof(Globals::{member})"


def _stores(field: Field, arg: int) -> list[Operation]:
    """Return the operations that fill the member of a field."""
    name = field.name
    if field.draws is not None:
        return [("store_integer", arg, *_place(f"{name}.seed")), ("store_count", arg, *_place(f"{name}.offset"))]
    if field.is_parallel:
        return [
            ("store_pointers", arg, _place(f"{name}.pointers")[0]),
            ("store_multicast_pointer", arg, _place(f"{name}.multicast_ptr")[0]),
            ("store_device_count", arg, *_place(f"{name}.count")),
            ("store_padded_extents", arg, _place(f"{name}.extents")[0]),
        ]
    if field.is_list:
        return _list(arg, f"{name}", _layout(field, 0, f"{name}.items[0]"))
    if field.is_tensor:
        return _layout(field, arg, name)
    value = f"{name}.value" if field.optional else name
    if field.value_type is not None and field.value_type.item is not None:
        item = field.value_type.item.cpp
        operations = _list(arg, value, [_scalar(item, 0, f"{value}.items[0]")])
    else:
        operations = [_scalar(field.dtype, arg, value)]
    if field.optional:
        operations.append(("store_presence", arg, _place(f"{name}.present")[0]))
    return operations


def _layout(field: Field, arg: int, member: str) -> list[Operation]:
    pointer, extents = (_place(f"{member}.{part}")[0] for part in ("raw_ptr", "extents"))
    if not field.is_strided:
        return [("store_layout", arg, pointer, extents)]
    rank = len(field.dims)
    strides = _place(f"{member}.strides")[0]
    return [
        ("store_pointer", arg, pointer),
        ("store_extents", arg, extents, rank),
        ("store_strides", arg, strides, rank),
    ]


def _scalar(cpp: str, arg: int, member: str) -> Operation:
    return ("store_real" if cpp in ("float", "double") else "store_integer", arg, *_place(member))


def _list(arg: int, member: str, of_item: list[Operation]) -> list[Operation]:
    """Return the operations that fill a list; those of an item use argument 0, and offsets within the item."""
    start, size = _place(f"{member}.items[0]")
    relative = tuple(
        (name, first, *(f"{x} - {start}" if isinstance(x, str) and x.startswith("offsetof") else x for x in rest))
        for name, first, *rest in of_item
    )
    return [("each", arg, start, size, relative), ("store_count", arg, *_place(f"{member}.count"))]
