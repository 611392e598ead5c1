"""Pieces of rendered C++: names of variables, literals, comments, indentation."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

from tkjit.spec import Field, Spec
from tkjit.spec.model import MISSING
from tkjit.spec.signature import python_type

_WIDTH = 100


def local(name: str) -> str:
    """Return the C++ variable that holds an argument or a dim; neither tkjit nor a header uses that name.

    Variables derived from it are called ``shape_of_x``, ``object_of_x`` and so on.

    >>> local("N"), local("x.rows"), local("x.stride(-1)")
    ('v_N', 'rows_of_x', 'stride_m1_of_x')
    """
    field, _, extent = name.partition(".")
    extent = re.sub(r"\((-?)(\d)\)", lambda axis: f"_{'m' * bool(axis[1])}{axis[2]}", extent)
    return f"{extent}_of_{field}" if extent else f"v_{name}"


def stride_axis(extent: str, rank: int) -> str:
    """Return the number of the dim that ``stride(-1)`` refers to, or "" if ``extent`` is not a stride.

    >>> stride_axis("stride(-1)", 4), stride_axis("rows", 4)
    ('3', '')
    """
    found = re.fullmatch(r"stride\((-?\d)\)", extent)
    return str(int(found[1]) % rank) if found else ""


def argument(name: str) -> str:
    """Return the launcher's C++ variable that holds an argument as passed; neither headers nor users use such names."""
    return f"arg_{name}"


def given(name: str) -> str:
    """Return the glue's C++ variable that holds the object that was passed for a parameter, or null."""
    return f"given_{name}"


def whole(f: Field) -> str:
    """Return the variable for a whole argument: all items of a list, or all parts of a parallel layout."""
    return f"list_of_{f.name}" if f.is_list else f"parallel_of_{f.name}" if f.is_parallel else local(f.name)


def field_text(field: Field) -> str:
    """Return a field as its author wrote it: ``x: In[Tensor, "T", "N"]``, ``alpha: float = 1.0``."""
    if field.is_tensor:
        dims = [*(['"..."'] if field.leading else []), *(f'"{dim}"' if dim.names else str(dim) for dim in field.dims)]
        align = [f"Align({field.align_bytes})"] if field.align_bytes else []
        align += [f"CType({repr_text(field.cpp_type)})"] if field.cpp_type else []
        align += [f"Member({repr_text(field.member)})"] if field.member else []
        align += [] if field.fill is None else [f"Fill({field.fill!r})" if field.fill else "Zero"]
        direction = {"in": "In", "inout": "InOut", "out": "Out", "scratch": "Scratch"}[field.direction]
        kind = "Strided" if field.is_strided else python_type(field)
        text = f"{field.name}: {direction}[{', '.join([kind, repr_text(field.dtype), *dims, *align])}]"
    elif field.value_type is not None:
        text = f"{field.name}: {field.value_type.text}"
    else:
        kind = "int" if field.is_integer else "float"
        marker = f"Scalar[{kind}, {repr_text(field.dtype)}]"
        text = f"{field.name}: {field.dtype if field.dtype in ('float', 'int', 'bool') else marker}"
    optional = " | None" if field.optional else ""
    default = "" if field.default in (MISSING, None) else f" = {field.default!r}"
    return text + optional + default


def repr_text(text: str) -> str:
    """Return a text as a C string literal; for the texts rendered here, it is also a Python literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def literal(value: float | int | bool) -> str:
    """Return a Python number as a C++ literal."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        if math.isnan(value):
            return "Py_NAN"
        if math.isinf(value):
            return "Py_HUGE_VAL" if value > 0 else "-Py_HUGE_VAL"
    return repr(value)


def int64_literal(value: int) -> str:
    """Return a 64-bit integer as a C++ expression, because C++ has no literal for the smallest one."""
    return "INT64_MIN" if value == -(2**63) else str(value)


def number(value: float | int) -> str:
    """Return a Python number as a 64-bit C++ literal that needs no header.

    >>> number(-math.inf), number(3)
    ('-__builtin_huge_val()', 'int64_t(3)')
    """
    if isinstance(value, int):
        return f"int64_t({int(value)})"
    if math.isnan(value):
        return '__builtin_nan("")'
    return f"{'-' if value < 0 else ''}__builtin_huge_val()" if math.isinf(value) else repr(value)


def speller(spec: Spec) -> Callable[[str], str]:
    """Return a function that spells names as in the launch function, where a compile-time integer is a constant."""
    return lambda name: f"tkjit::Int({name})" if name in spec.compile_time_integers else local(name)


def wrap(before: str, items: Iterable[str], after: str) -> list[str]:
    """Break a list into lines, and indent all lines except the first."""
    lines = [before]
    *most, last = items
    for item in (*(f"{item}, " for item in most), f"{last}{after}"):
        if len(lines[-1]) + len(item.rstrip()) > _WIDTH:
            lines.append("    ")
        lines[-1] += item
    return [line.rstrip() for line in lines]


def indent(lines: Iterable[str], by: int = 4) -> list[str]:
    """Indent lines; empty ones stay empty."""
    return [" " * by + line if line else "" for line in lines]
