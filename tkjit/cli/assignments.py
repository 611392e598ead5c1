"""Numbers of the command line: ``N=100``."""

from __future__ import annotations

from typing import Any

from tkjit.errors import SpecError


def assignment(text: str) -> tuple[str, Any]:
    """``N=100`` as a name and a value.

    Raises
    ------
    SpecError
        If it is no assignment of an integer, a float, True or False.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise SpecError(f"{text!r} is no assignment; expected the like of N=100")
    if value in ("True", "False"):
        return name, value == "True"
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    raise SpecError(f"{name}={value!r} is not a number")


def argument(text: str) -> tuple[str, Any]:
    """``T=bfloat16`` as a name and a value: a number, or the text."""
    name, equals, value = text.partition("=")
    try:
        return assignment(text)
    except SpecError:
        if not equals or not name.isidentifier():
            raise
        return name, value
