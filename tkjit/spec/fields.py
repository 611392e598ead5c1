"""Reads a function parameter as a field, from its annotation and default."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tkjit.errors import SpecError
from tkjit.spec.advice import advice_on_annotation
from tkjit.spec.annotations import (
    Align,
    CExpr,
    CType,
    Fill,
    Marker,
    MaxLength,
    Member,
    ParallelLayout,
    Strided,
    Struct,
    Tensor,
)
from tkjit.spec.dtypes import BY_NAME, SCALAR_TYPES
from tkjit.spec.expr import Expr
from tkjit.spec.model import MISSING, Field
from tkjit.spec.structs import flat_default, struct_type
from tkjit.spec.values import ValueType, value_type_of

_MAX_LENGTH = 16  # the maximum length of a list in a kernel's struct, unless the spec sets another
_OPTIONAL_TENSORS = list[typing.Optional[Tensor]]  # noqa: UP045 - equal to list[Tensor | None]
_SCALARS = {float: "float", int: "int", bool: "bool"}


def field_of(kernel: str, parameter: inspect.Parameter) -> Field:
    """Read a parameter as a field.

    Raises
    ------
    SpecError
        If its annotation or its default cannot be read.
    """
    name, annotation = parameter.name, parameter.annotation
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise SpecError(f"{kernel}: *{name} is not allowed; a kernel's parameters are fixed")
    if annotation is parameter.empty:
        raise SpecError(f"{kernel}: {name} has no annotation; expected In[Tensor, ...], float, int or bool")
    annotation, optional = _strip_none(annotation)
    default: Any = MISSING if parameter.default is parameter.empty else parameter.default
    if default is None:
        optional = True
    python_type, marker = _marker(kernel, name, annotation)
    common: dict[str, Any] = {
        "name": name,
        "optional": optional,
        "default": default,
        "keyword_only": parameter.kind is parameter.KEYWORD_ONLY,
    }
    value = value_type_of(python_type)
    if python_type is Struct:
        return _struct_field(kernel, marker, common)
    if value is not None and value.code == "g":
        return _generator_field(kernel, value, marker, common)
    if marker.direction == "constant":
        if python_type is not Tensor or optional or default is not MISSING:
            raise SpecError(f"{kernel}: {name}: a constant is one required tensor, without a default")
        marker = replace(marker, direction="in")
        common["is_constant"] = True
    if marker.direction == "scalar":
        if python_type not in _SCALARS and value_type_of(python_type) is not None:
            return _value_field(kernel, python_type, marker, common)
        return _scalar_field(kernel, python_type, marker, common)
    if isinstance(python_type, type) and issubclass(python_type, ParallelLayout):
        if marker.direction in ("out", "scratch") or optional:
            raise SpecError(f"{kernel}: {name}: a parallel layout is a required input; use InOut to write to it")
        common["is_parallel"] = True
    elif python_type is Strided:
        common["is_strided"] = True
    elif python_type not in (Tensor, list[Tensor], _OPTIONAL_TENSORS):
        kinds = "expected Tensor, Strided, list[Tensor] or ParallelTensor"
        first = f', as in {marker.name}[Tensor, "float32", "N"]'
        raise SpecError(f"{kernel}: {name} is {python_type!r} with dims; {kinds} before them{first}")
    elif python_type is not Tensor:
        if marker.direction in ("out", "scratch") or optional:
            raise SpecError(f"{kernel}: {name}: a list of tensors is a required input")
        common["max_length"] = _MAX_LENGTH
        common["has_optional_items"] = python_type == _OPTIONAL_TENSORS
    if default is not MISSING and default is not None:
        raise SpecError(f"{kernel}: a tensor's default can only be None, but {name} has {default!r}")
    if marker.direction == "scratch" and (optional or default is not MISSING):
        raise SpecError(f"{kernel}: {name}: scratch is allocated for each call, so it cannot be None or have a default")
    if marker.direction == "out":
        common |= {"keyword_only": True, "optional": False, "default": MISSING}
    return _tensor_field(kernel, marker, common)


def _strip_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(annotation) if member is not types.NoneType]
        if len(members) == 1:
            return members[0], True
    return annotation, False


def _marker(kernel: str, name: str, annotation: Any) -> tuple[Any, Marker]:
    if isinstance(annotation, type) and annotation in _SCALARS:
        return annotation, Marker("scalar", ())
    if typing.get_origin(annotation) is typing.Annotated:
        python_type, *rest = typing.get_args(annotation)
        markers = [item for item in rest if isinstance(item, Marker)]
        if len(markers) == 1:
            return python_type, markers[0]
    if value_type_of(annotation) is not None:
        return annotation, Marker("scalar", ())
    raise SpecError(
        f"{kernel}: {name} is annotated {annotation!r}; expected In[...], InOut[...], Out[...], Scalar[...], float, "
        "int, bool, str, torch.dtype, torch.device, or a list, tuple, dict or set of these"
        f"{advice_on_annotation(name, annotation)}"
    )


def _generator_field(kernel: str, value: ValueType, marker: Marker, common: dict[str, Any]) -> Field:
    """Read a generator; a call without one uses the device's default generator."""
    name = common["name"]
    if marker.direction not in ("in", "scalar") or len(marker.items) > 1 or common["default"] not in (MISSING, None):
        raise SpecError(f"{kernel}: {name}: a generator is an input without a default: Generator, or In[Generator, 8]")
    draws = parse_at(kernel, name, marker.items[0] if marker.items else 4, Expr.parse)
    common |= {"keyword_only": True, "optional": True, "default": None}
    return Field(direction="scalar", dtype=value.cpp, value_type=value, draws=draws, **common)


def _struct_field(kernel: str, marker: Marker, common: dict[str, Any]) -> Field:
    name = common["name"]
    if marker.direction != "scalar" or common["optional"]:
        raise SpecError(f"{kernel}: {name}: a struct is passed by value and cannot be None: Scalar[Struct, ...]")
    members = [item for item in marker.items if isinstance(item, Member)]
    value = struct_type(kernel, name, [item for item in marker.items if not isinstance(item, Member)])
    common["default"] = flat_default(f"{kernel}: {name}", value, common["default"])
    path = members[0].path if members else ""
    return Field(direction="scalar", dtype=value.cpp, value_type=value, member=path, **common)


def _value_field(kernel: str, python_type: Any, marker: Marker, common: dict[str, Any]) -> Field:
    value = value_type_of(python_type)
    assert value is not None
    lengths = [item.items for item in marker.items if isinstance(item, MaxLength)]
    named = [item for item in marker.items if isinstance(item, str)]
    if named:
        value = _items_as(kernel, common["name"], value, named[0])
    common["default"] = _value_default(kernel, common["name"], value, common["default"])
    return Field(
        direction="scalar",
        dtype=value.cpp,
        value_type=value,
        max_length=lengths[0] if lengths else _MAX_LENGTH if value.code[0] == "L" else 0,
        **common,
    )


def _items_as(kernel: str, name: str, value: ValueType, cpp: str) -> ValueType:
    """Give a list of numbers the C++ item type that the spec asks for."""
    if value.item is None:
        raise SpecError(f"{kernel}: {name}: a scalar is float, int or bool, not {value.text}")
    codes = {"int": {"int": "j", "int32_t": "j", "int64_t": "i"}, "float": {"float": "f", "double": "f"}}
    known = codes.get(value.item.text, {})
    if cpp not in known:
        raise SpecError(f"{kernel}: {name}: the items of {value.text} cannot be {cpp}; known are {', '.join(known)}")
    return replace(value, code=f"L{known[cpp]}", cpp=f"std::vector<{cpp}>", item=replace(value.item, cpp=cpp))


def _value_default(kernel: str, name: str, value: ValueType, default: Any) -> Any:
    """Convert a default to an immutable value that can be rendered as C++."""
    if default is MISSING or default is None:
        return default
    numbers = value.item is not None and value.item.code in "ifb"
    if numbers and isinstance(default, (list, tuple)):
        kinds = {"i": (int,), "f": (int, float), "b": (bool,)}[value.item.code if value.item else "i"]
        if all(isinstance(item, kinds) and (isinstance(item, bool) == (kinds == (bool,))) for item in default):
            return tuple(default)
    if value.code == "s" and isinstance(default, str):
        return default
    if value.code == "t" and str(default).removeprefix("torch.") in BY_NAME:
        return str(default).removeprefix("torch.")
    if value.code == "d" and re.fullmatch(r"cpu|cuda(:\d{1,3})?", str(default)):
        return str(default)
    raise SpecError(f"{kernel}: {name}: {default!r} cannot be the default of {value.text}; use None")


def _scalar_field(kernel: str, python_type: Any, marker: Marker, common: dict[str, Any]) -> Field:
    name = common["name"]
    if python_type not in _SCALARS:
        raise SpecError(f"{kernel}: {name}: a scalar is float, int or bool, not {python_type!r}")
    cpp = str(marker.items[0]) if marker.items else _SCALARS[python_type]
    kind = "int" if SCALAR_TYPES.get(cpp) else {"double": "float"}.get(cpp, cpp)
    if cpp in SCALAR_TYPES and kind != python_type.__name__:
        raise SpecError(f"{kernel}: {name}: {python_type.__name__} cannot be a C++ {cpp}")
    default: Any = common["default"]
    if default not in (MISSING, None):
        _check_default(kernel, name, default, python_type, SCALAR_TYPES.get(cpp))
    return Field(direction="scalar", dtype=cpp, **common)


def _check_default(kernel: str, name: str, default: Any, python_type: type, bounds: tuple[int, int] | None) -> None:
    # bool is a subclass of int, but is not accepted as a number
    kinds = {float: (int, float), int: (int,), bool: (bool,)}[python_type]
    if not isinstance(default, kinds) or (isinstance(default, bool) and python_type is not bool):
        raise SpecError(f"{kernel}: {name}: the default {default!r} is not {python_type.__name__}")
    if bounds and not bounds[0] <= default <= bounds[1]:
        raise SpecError(f"{kernel}: {name}: the default {default!r} does not fit {bounds[0]} to {bounds[1]}")


def _tensor_field(kernel: str, marker: Marker, common: dict[str, Any]) -> Field:
    name = common["name"]
    align, cpp_type, member, plain = 0, None, "", []
    for item in marker.items:
        if isinstance(item, Align):
            align = item.bytes
        elif isinstance(item, CType):
            cpp_type = item.name
        elif isinstance(item, Member):
            member = item.path
        elif isinstance(item, Fill):
            common["fill"] = item.value
        elif isinstance(item, MaxLength):
            common["max_length"] = item.items
        else:
            plain.append(item)
    if plain and str(plain[0]).startswith("torch."):
        raise SpecError(f'{kernel}: {name}: write dtypes as strings: "{str(plain[0])[6:]}" instead of {plain[0]}')
    if not plain or not isinstance(plain[0], str):
        raise SpecError(f"{kernel}: {name} has no dtype; expected {marker.name}[Tensor, dtype, dims...]")
    dtype, *dims = plain
    texts = [part for dim in dims for part in (["..."] if dim is Ellipsis else _split_dims(dim))]
    leading = bool(texts) and texts[0] == "..."
    if leading and common.get("is_strided"):
        raise SpecError(f"{kernel}: {name}: a strided layout has a fixed number of dims, so it cannot have '...'")
    if "..." in texts[leading:]:
        raise SpecError(f"{kernel}: {name}: '...' can only come before the other dims")
    return Field(
        direction=marker.direction,
        dtype=dtype,
        dims=tuple(parse_at(kernel, name, text, Expr.parse) for text in texts[leading:]),
        leading=leading,
        align_bytes=align,
        cpp_type=cpp_type,
        member=member,
        **common,
    )


def _split_dims(dim: str | int) -> list[str]:
    """Split an annotation's dims: ``"... N"`` is two dims, but ``"2 * N"`` is one."""
    text = str(dim).strip()
    if text.startswith("..."):
        return ["...", *text[3:].split()]
    return [text]


def parse_at(kernel: str, where: str, text: Any, parse: Callable[[Any], Any]) -> Any:
    """Parse an expression, but return None and ``CExpr`` unchanged; an error names the place given by ``where``."""
    try:
        return text if text is None or isinstance(text, CExpr) else parse(text)
    except SpecError as error:
        raise SpecError(f"{kernel}: {where}: {error}") from None
