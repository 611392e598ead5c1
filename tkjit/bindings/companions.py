"""What is compiled together for a class, since it is probably called: constructors, getters, elements, iterators."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tkjit.bindings import forms
from tkjit.bindings.expressions import Expression, Given
from tkjit.bindings.foresight import methods_named
from tkjit.bindings.spelling import dtype_of, template_argument

_GETTERS = ("size", "empty", "front", "back", "data")
_MOST_GETTERS, _MOST_FIELDS = 8, 8  # of those that are no container's
_NUMBER = Given("", "int")


def companions_of(type_text: str, arguments: tuple[Any, ...], members: dict[str, Any]) -> tuple[Expression, ...]:
    """What is probably called on the objects of a class; nothing for one that has no getters and no elements.

    Parameters
    ----------
    type_text : str
        The class.
    arguments : tuple
        Its template arguments.
    members : dict
        What is declared of it.
    """
    own = Given("object", type_text)
    is_container = {"begin", "end"} <= members.keys()
    getters = [name for name, facts in members.items() if name.isidentifier() and _is_getter(name, facts)]
    getters = [name for name in getters if name in _GETTERS] if is_container else getters[:_MOST_GETTERS]
    fields = [name for name, facts in members.items() if facts["kind"] == "field"][:_MOST_FIELDS]
    if not getters and not fields and not is_container:
        return ()
    named = Expression(f"static_cast<{type_text}*>(nullptr)", (), type_text, makes=type_text)
    found = [named, *(_optional(forms.method(name), own) for name in getters)]
    found += [_optional(forms.field(name), own) for name in fields]
    if is_container:
        found += [*_constructors(type_text, own, arguments), *_iteration(type_text, own)]
    if "operator[]" in members:
        found += [_optional(forms.AT, own, _NUMBER), _optional(forms.SET_AT, own, _NUMBER, _NUMBER)]
    if {"extent", "stride"} <= members.keys():
        found.append(_optional(forms.method("extent"), own, _NUMBER))
    return (*found, *_array_access(own, members))


def companions_in_batch(type_text: str, members: dict[str, Any], names: Collection[str] = ()) -> tuple[Expression, ...]:
    """What NumPy's view of an object needs, and what methods of some names do; nothing for a class without them."""
    own = Given("object", type_text)
    found = [*_array_access(own, members), *methods_named(names, own, members)]
    named = Expression(f"static_cast<{type_text}*>(nullptr)", (), type_text, makes=type_text)
    return (named, *found) if found else ()


def _array_access(own: Given, members: dict[str, Any]) -> list[Expression]:
    has_extents, is_container = {"extent", "stride"} <= members.keys(), {"begin", "end"} <= members.keys()
    found = [_optional(forms.RANK, own)] if has_extents else []
    if has_extents or is_container:
        found += [_optional(form, own) for form in (forms.ADDRESS_OF_ELEMENTS, forms.POINTER_TO_ELEMENTS)]
    if has_extents:
        found += [_optional(form, own, _NUMBER) for form in (forms.EXTENT, forms.STRIDE)]
    if "size" in members:
        found.append(_optional(forms.SIZE, own))
    return found


def _is_getter(name: str, facts: dict[str, Any]) -> bool:
    plain = [one for one in facts.get("overloads", []) if not one["parameters"]]
    return facts["kind"] == "method" and any(one.get("const") or name.startswith("get_") for one in plain)


def _constructors(type_text: str, own: Given, arguments: tuple[Any, ...]) -> list[Expression]:
    form = forms.constructor(type_text)
    found = [_optional(form, _NUMBER)]
    element = template_argument(arguments[0]) if arguments and not isinstance(arguments[0], (list, tuple)) else ""
    if dtype_of(element):
        found.append(_optional(forms.from_buffer(type_text), Given("array", element)))
    return found


def _iteration(type_text: str, own: Given) -> list[Expression]:
    text = f"typename tkjit::bind::BeginOf<{type_text}>::type"
    at = Given("object", text)
    return [
        Expression(forms.method("begin"), (own,), "begin", is_optional=True, makes=text),
        _optional(forms.method("end"), own),
        *(_optional(forms.binary(sign), at, _NUMBER) for sign in "+-"),
        _optional(forms.binary("-"), at, at),
        *(_optional(form, at) for form in (forms.DEREFERENCE, forms.INCREMENT)),
        _optional(forms.UNEQUAL, at, at),
    ]


def _optional(form: str, *given: Given) -> Expression:
    return Expression(form, given, form, is_optional=True)
