"""Structs that a kernel takes by value: CUDA's vector types, and structs that the source defines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tkjit.errors import SpecError
from tkjit.spec.cpp_words import CPP_KEYWORDS
from tkjit.spec.dtypes import SCALAR_TYPES
from tkjit.spec.model import MISSING
from tkjit.spec.values import StructMember, ValueType

_ELEMENTS = {
    "char": "int8_t",
    "uchar": "uint8_t",
    "short": "int16_t",
    "ushort": "uint16_t",
    "int": "int",
    "uint": "uint32_t",
    "long": "int64_t",
    "ulong": "uint64_t",
    "longlong": "int64_t",
    "ulonglong": "uint64_t",
    "float": "float",
    "double": "double",
}
# Maps CUDA's vector types, such as float3, to their members.
VECTORS: dict[str, tuple[StructMember, ...]] = {
    f"{name}{size}": tuple(StructMember(axis, element) for axis in "xyzw"[:size])
    for name, element in _ELEMENTS.items()
    for size in (1, 2, 3, 4)
}
VECTORS["dim3"] = tuple(StructMember(axis, "uint32_t") for axis in "xyz")
_TYPE = re.compile(r"(?:::)?[A-Za-z_]\w*(?:::\w+)*(?:<[\w:, <>]+>)?")
_MAX_ELEMENTS = 256


def struct_type(kernel: str, name: str, items: Sequence[Any]) -> ValueType:
    """Return the type named by ``Scalar[Struct, "float3"]`` or ``Scalar[Struct, "Params", {"scale": "float"}]``.

    Parameters
    ----------
    items : sequence
        The items after ``Struct``: the C++ type, followed by the members if the source defines the struct.

    Raises
    ------
    SpecError
        If the items do not name a struct, or a member's type is not valid.
    """
    where = f"{kernel}: {name}"
    if not items or not isinstance(items[0], str) or not _TYPE.fullmatch(items[0]):
        raise SpecError(f'{where}: expected the type of the struct, as in Scalar[Struct, "float3"]')
    cpp = items[0]
    if len(items) == 1:
        if cpp not in VECTORS:
            raise SpecError(
                f"{where}: {cpp} is not a CUDA vector type; list its members in order: "
                f'Scalar[Struct, "{cpp}", {{"scale": "float", "weights": ("float", 4)}}]'
            )
        return _type(cpp, VECTORS[cpp])
    if cpp in VECTORS:
        raise SpecError(f'{where}: {cpp} is a CUDA vector type, whose members are known; write Scalar[Struct, "{cpp}"]')
    if len(items) > 2 or not isinstance(items[1], Mapping) or not items[1]:
        raise SpecError(f"{where}: expected the members of {cpp} as a dict of names and C++ types")
    members = tuple(_member(where, member, kind) for member, kind in items[1].items())
    if sum(member.count for member in members) > _MAX_ELEMENTS:
        raise SpecError(f"{where}: {cpp} has more than {_MAX_ELEMENTS} elements; pass a tensor")
    return _type(cpp, members)


def _member(where: str, name: Any, kind: Any) -> StructMember:
    element, count = kind if isinstance(kind, tuple) and len(kind) == 2 else (kind, 0)
    is_name = isinstance(name, str) and name.isidentifier() and name not in CPP_KEYWORDS
    if not is_name or not isinstance(element, str) or element not in SCALAR_TYPES:
        raise SpecError(f"{where}: the member {name!r} is {kind!r}; expected one of {', '.join(SCALAR_TYPES)}")
    if type(count) is not int or count < 0 or (isinstance(kind, tuple) and count == 0):
        raise SpecError(f'{where}: the member {name} is {kind!r}; expected an array as in ("float", 4)')
    return StructMember(name, element, count)


def _type(cpp: str, members: tuple[StructMember, ...]) -> ValueType:
    code = f"R{','.join(member.text for member in members)};"
    return ValueType("Struct", code, cpp, members=members)


def flat_default(where: str, value: ValueType, default: Any) -> Any:
    """Flatten a struct's default to the numbers of all its members, in order.

    Raises
    ------
    SpecError
        If the default lacks a number for a member, or has one that the member cannot hold.
    """
    if default is MISSING or default is None:
        return default
    if isinstance(default, Mapping) and default.keys() == {member.name for member in value.members}:
        default = [default[member.name] for member in value.members]
    numbers: list[Any] = []
    if isinstance(default, (list, tuple)) and len(default) == len(value.members):
        for member, item in zip(value.members, default, strict=True):
            items = list(item) if member.array and isinstance(item, (list, tuple)) else [item]
            numbers += (
                items if len(items) == member.count and all(_fits(number, member.cpp) for number in items) else []
            )
    if len(numbers) == sum(member.count for member in value.members):
        return tuple(numbers)
    raise SpecError(f"{where}: {default!r} cannot be the default of {value.cpp}; expected ({value.member_names})")


def _fits(number: Any, cpp: str) -> bool:
    """Return whether a C++ type can hold a number."""
    bounds = SCALAR_TYPES[cpp]
    if bounds is None:
        return isinstance(number, bool) if cpp == "bool" else type(number) in (int, float)
    return type(number) is int and bounds[0] <= number <= bounds[1]
