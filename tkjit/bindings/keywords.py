"""Keyword arguments, as C++ takes arguments: by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tkjit.bindings.declarations import UNKNOWN_DEFAULT, signature
from tkjit.errors import ArgumentError


def in_order(
    name: str,
    overloads: Sequence[dict[str, Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    default: Callable[[str], Any],
) -> tuple[Any, ...]:
    """Arguments by position, where an overload has parameters of the keywords' names.

    Parameters
    ----------
    overloads : sequence of dict
        As ``read_declarations`` gives them.
    default : callable
        Returns an argument for the C++ text of a parameter's default, where one is left out before a keyword.

    Raises
    ------
    ArgumentError
        If no overload takes them.
    """
    for overload in overloads:
        parameters = overload["parameters"][len(args) :]
        names = [parameter for parameter, _, _ in parameters]
        if not kwargs.keys() <= set(names):
            continue
        last = max(names.index(keyword) for keyword in kwargs)
        before = parameters[: last + 1]
        if all(parameter in kwargs or text not in ("", UNKNOWN_DEFAULT) for parameter, _, text in before):
            rest = (kwargs[parameter] if parameter in kwargs else default(text) for parameter, _, text in before)
            return (*args, *rest)
    known = "".join(f"\n  declared: {signature(name, overload)}" for overload in overloads[:6])
    raise ArgumentError(f"{name}: no overload takes {', '.join(kwargs)} behind {len(args)} arguments{known}")
