"""Types of arguments other than tensors and numbers: strings, dtypes, devices, containers and structs."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StructMember:
    """A member of a struct that is passed by value.

    Parameters
    ----------
    cpp : str
        The type of the member; for an array, of its elements.
    array : int
        The length of an array; 0 for a number.
    """

    name: str
    cpp: str
    array: int = 0

    @property
    def count(self) -> int:
        """The number of elements."""
        return max(self.array, 1)

    @property
    def text(self) -> str:
        """The member as the runtime parses it: ``weights:float[4]``."""
        return f"{self.name}:{self.cpp}{f'[{self.array}]' if self.array else ''}"


@dataclass(frozen=True)
class ValueType:
    """The type of an argument that is neither a tensor nor a plain number.

    Parameters
    ----------
    text : str
        The type in a signature: ``list[int]``.
    code : str
        The code that the runtime parses (``runtime/values.h``): ``Li``.
    cpp : str
        The C++ type that a host function takes: ``std::vector<int64_t>``.
    schema : str
        PyTorch's name for the type in a schema; empty if PyTorch has none.
    item : ValueType or None
        The type of a list's items.
    members : tuple of StructMember
        The members of a struct.
    """

    text: str
    code: str
    cpp: str
    schema: str = ""
    item: ValueType | None = None
    members: tuple[StructMember, ...] = ()

    @property
    def member_names(self) -> str:
        """The members as error messages show them: ``x, y, z``, or ``scale, weights[4]``."""
        return ", ".join(f"{member.name}[{member.array}]" if member.array else member.name for member in self.members)

    @property
    def expected(self) -> str:
        """The expected value as error messages show it: ``list[int]``, ``float3: (x, y, z), or a dict, record ...``."""
        return (
            f"{self.cpp}: ({self.member_names}), or a dict, record or structure of these" if self.members else self.text
        )


_PLAIN = {
    int: ValueType("int", "i", "int64_t", "SymInt"),
    float: ValueType("float", "f", "double", "float"),
    bool: ValueType("bool", "b", "bool", "bool"),
    str: ValueType("str", "s", "std::string", "str"),
}
_TORCHS = {
    "dtype": ValueType("torch.dtype", "t", "TkjitDtype", "ScalarType"),
    "DType": ValueType("torch.dtype", "t", "TkjitDtype", "ScalarType"),
    "device": ValueType("torch.device", "d", "TkjitDevice", "Device"),
    "Generator": ValueType("torch.Generator", "g", "tkjit::philox", "Generator"),
}


def value_type_of(annotation: Any) -> ValueType | None:
    """Return the value type that an annotation names, or None if the annotation does not name one.

    Examples
    --------
    >>> value_type_of(dict[str, list[float]]).cpp
    'std::map<std::string, std::vector<double>>'
    """
    if isinstance(annotation, type) and annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type) and annotation.__module__ in ("torch", "torch._C", "tkjit.spec.annotations"):
        return _TORCHS.get(annotation.__name__)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        origin, arguments = list, arguments[:1]
    items = [value_type_of(argument) for argument in arguments]
    if not isinstance(annotation, types.GenericAlias) or not items or None in items:
        return None
    return _container(origin, [item for item in items if item is not None])


def _container(origin: Any, items: list[ValueType]) -> ValueType | None:
    codes = "".join(item.code for item in items)
    inner = ", ".join(item.cpp for item in items)
    text = f"{getattr(origin, '__name__', '')}[{', '.join(item.text for item in items)}]"
    if origin is list:
        (item,) = items
        schema = f"{item.schema}[]" if item.code in "ifbs" else ""
        return ValueType(text, f"L{codes}", f"std::vector<{inner}>", schema, item)
    if origin in (set, frozenset):
        return ValueType(text, f"S{codes}", f"std::set<{inner}>")
    if origin is dict:
        return ValueType(text, f"D{codes}", f"std::map<{inner}>")
    if origin is tuple and len(items) < 10:
        return ValueType(text, f"T{len(items)}{codes}", f"std::tuple<{inner}>")
    return None
