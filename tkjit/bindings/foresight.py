"""What is probably called next: the methods that the function which makes a call names as well.

A unit of calls costs more than a call in it. What is guessed in vain costs its compiling, and is kept for later.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from types import CodeType, FrameType
from typing import Any

from tkjit.bindings import forms
from tkjit.bindings.expressions import Expression, Given

_MOST = 8
_BETWEEN = ("tkjit", "contextlib")  # the end of a batch is called by the latter
_NUMBERS = {"int": "int", "bool": "bool", "double": "double"}  # what Python passes, by the type of a parameter


def calling_frame() -> FrameType | None:
    """Of the function, or the notebook's cell, that called into tkjit."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__")).split(".")[0] in _BETWEEN:
        frame = frame.f_back
    return frame


def names_in_caller() -> frozenset[str]:
    """The names in the calling function."""
    frame = calling_frame()
    return frozenset(_names_of(frame.f_code)) if frame is not None else frozenset()


def _names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of(constant)


def methods_named(names: Collection[str], own: Given, members: dict[str, Any]) -> list[Expression]:
    """Calls of an object's methods, as far as the types of their arguments are plain: none, or one number.

    Parameters
    ----------
    names : collection of str
        The methods.
    own : Given
        The object.
    members : dict
        What is declared of its class.
    """
    found = []
    for name in sorted(members.keys() & names):
        for overload in members[name].get("overloads", ()):
            arguments = _arguments_of(overload)
            if members[name]["kind"] == "method" and arguments is not None and "template" not in overload:
                found.append(Expression(forms.method(name), (own, *arguments), name, is_optional=True))
    return found[:_MOST]


def _arguments_of(overload: dict[str, Any]) -> list[Given] | None:
    needed = [kind.removeprefix("const ") for _, kind, default in overload["parameters"] if not default]
    if not all(kind in _NUMBERS for kind in needed) or len(needed) > 1:
        return None
    return [Given("", _NUMBERS[kind]) for kind in needed]
