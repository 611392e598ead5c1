"""Parses assignments on the command line, such as ``N=100``."""

from __future__ import annotations

from typing import Any

from tkjit.errors import SpecError


def assignment(text: str) -> tuple[str, Any]:
    """Split ``N=100`` into a name and a number.

    Raises
    ------
    SpecError
        If the text does not assign an integer, a float, True or False to a name.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise SpecError(f"{text!r} is not an assignment; expected NAME=VALUE, such as N=100")
    if value in ("True", "False"):
        return name, value == "True"
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    raise SpecError(f"{name}={value!r} is not a number; expected an integer, a float, True or False")


def argument(text: str) -> tuple[str, Any]:
    """Split ``T=bfloat16`` into a name and a value, which is a number if possible and otherwise the text."""
    name, equals, value = text.partition("=")
    try:
        return assignment(text)
    except SpecError:
        if not equals or not name.isidentifier():
            raise
        return name, value
