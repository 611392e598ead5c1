"""The members of a class that are compiled with the first call on it: getters, fields, elements and iterators.

A program rarely calls only one of them, and a unit of twenty such calls takes hardly longer to compile than a unit of
one.
"""

from __future__ import annotations

from typing import Any

from tkjit.bindings.cpp_types import dtype_of, template_argument
from tkjit.bindings.expressions import (
    ADDRESS_OF_ELEMENTS,
    AT,
    DEREFERENCE,
    EXTENT,
    INCREMENT,
    POINTER_TO_ELEMENTS,
    RANK,
    SET_AT,
    SIZE,
    STRIDE,
    UNEQUAL,
    Argument,
    Expression,
    binary,
    constructor,
    data_member,
    from_buffer,
    method,
)

_GETTERS = ("size", "empty", "front", "back", "data")
_MAX_GETTERS = 8  # for a class that is not a container
_MAX_FIELDS = 8
_NUMBER = Argument("", "int")


def members_of(type_text: str, arguments: tuple[Any, ...], members: dict[str, Any]) -> tuple[Expression, ...]:
    """Return the calls to compile with the first call on a class.

    The result is empty if the class is not a container and has neither getters nor fields.

    Parameters
    ----------
    type_text : str
        The class.
    arguments : tuple
        Its template arguments.
    members : dict
        Its declared members.
    """
    own = Argument("object", type_text)
    is_container = {"begin", "end"} <= members.keys()
    getters = [name for name, facts in members.items() if name.isidentifier() and _is_getter(name, facts)]
    getters = [name for name in getters if name in _GETTERS] if is_container else getters[:_MAX_GETTERS]
    fields = [name for name, facts in members.items() if facts["kind"] == "field"][:_MAX_FIELDS]
    if not getters and not fields and not is_container:
        return ()
    named = Expression(f"static_cast<{type_text}*>(nullptr)", (), type_text, makes=type_text)
    found = [named, *(_optional(method(name), own) for name in getters)]
    found += [_optional(data_member(name), own) for name in fields]
    if is_container:
        found += [*_constructors(type_text, arguments), *_iteration(type_text, own)]
    if "operator[]" in members:
        found += [_optional(AT, own, _NUMBER), _optional(SET_AT, own, _NUMBER, _NUMBER)]
    if {"extent", "stride"} <= members.keys():
        found.append(_optional(method("extent"), own, _NUMBER))
    return (*found, *_array_access(own, members))


def members_for_arrays(type_text: str, members: dict[str, Any]) -> tuple[Expression, ...]:
    """Return the calls that NumPy needs to view an object as an array. If a class has no elements, return none."""
    own = Argument("object", type_text)
    found = _array_access(own, members)
    named = Expression(f"static_cast<{type_text}*>(nullptr)", (), type_text, makes=type_text)
    return (named, *found) if found else ()


def _array_access(own: Argument, members: dict[str, Any]) -> list[Expression]:
    has_extents, is_container = {"extent", "stride"} <= members.keys(), {"begin", "end"} <= members.keys()
    found = [_optional(RANK, own)] if has_extents else []
    if has_extents or is_container:
        found += [_optional(form, own) for form in (ADDRESS_OF_ELEMENTS, POINTER_TO_ELEMENTS)]
    if has_extents:
        found += [_optional(form, own, _NUMBER) for form in (EXTENT, STRIDE)]
    if "size" in members:
        found.append(_optional(SIZE, own))
    return found


def _is_getter(name: str, facts: dict[str, Any]) -> bool:
    plain = [one for one in facts.get("overloads", []) if not one["parameters"]]
    return facts["kind"] == "method" and any(one.get("const") or name.startswith("get_") for one in plain)


def _constructors(type_text: str, arguments: tuple[Any, ...]) -> list[Expression]:
    form = constructor(type_text)
    found = [_optional(form, _NUMBER)]
    element = template_argument(arguments[0]) if arguments and not isinstance(arguments[0], (list, tuple)) else ""
    if dtype_of(element):
        found.append(_optional(from_buffer(type_text), Argument("array", element)))
    return found


def _iteration(type_text: str, own: Argument) -> list[Expression]:
    text = f"typename tkjit::bind::BeginOf<{type_text}>::type"
    at = Argument("object", text)
    return [
        Expression(method("begin"), (own,), "begin", is_optional=True, makes=text),
        _optional(method("end"), own),
        *(_optional(binary(sign), at, _NUMBER) for sign in "+-"),
        _optional(binary("-"), at, at),
        *(_optional(form, at) for form in (DEREFERENCE, INCREMENT)),
        _optional(UNEQUAL, at, at),
    ]


def _optional(form: str, *arguments: Argument) -> Expression:
    return Expression(form, arguments, form, is_optional=True)
