"""Prepares the arguments of a call for C++: makes them positional, and converts them to types that C++ has."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from tkjit.bindings.declarations import UNKNOWN_DEFAULT, signature
from tkjit.errors import ArgumentError


def prepare(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert lists and foreign tensors to NumPy arrays, and bound functions to C++ expressions.

    Return the same tuple if nothing has to be converted.

    Raises
    ------
    ArgumentError
        If a list or a tensor cannot be converted to an array.
    """
    prepared = tuple(_prepare(name, position, value) for position, value in enumerate(args, 1))
    return args if all(map(operator.is_, args, prepared)) else prepared


def _prepare(name: str, position: int, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return _array_of(name, position, value)
    if (as_argument := getattr(type(value), "__tkjit_argument__", None)) is not None:
        return as_argument(value)
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
        import numpy

        try:
            return numpy.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise ArgumentError(f"{name}: argument {position}: {error}") from None
    return value


def _array_of(name: str, position: int, values: Any) -> Any:
    import numpy

    try:
        array = numpy.asarray(values)
    except ValueError as error:
        raise ArgumentError(f"{name}: argument {position}: {error}") from None
    if array.dtype == numpy.int64 and type(_first_of(values)) is int:
        narrow = array.astype(numpy.int32)  # a Python int is a C++ int
        if not (narrow == array).all():
            raise ArgumentError(
                f"{name}: argument {position}: some numbers do not fit into a C++ int; pass an array of numpy.int64"
            )
        return narrow
    if array.dtype.kind not in "biufc":
        raise ArgumentError(f"{name}: argument {position}: expected a list of numbers, got a list of {array.dtype}")
    return array


def _first_of(values: Any) -> Any:
    while isinstance(values, (list, tuple)) and values:
        values = values[0]
    return values


def in_order(
    name: str,
    overloads: Sequence[dict[str, Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    default: Callable[[str], Any],
) -> tuple[Any, ...]:
    """Put keyword arguments into the positions of an overload's parameters.

    Parameters
    ----------
    overloads : sequence of dict
        The overloads from ``read_declarations``.
    default : callable
        Turns the C++ text of a default into an argument, for parameters that are omitted before a keyword.

    Raises
    ------
    ArgumentError
        If no overload takes the arguments.
    """
    for overload in overloads:
        parameters = overload["parameters"][len(args) :]
        names = [parameter for parameter, _, _ in parameters]
        if not kwargs.keys() <= set(names):
            continue
        last = max(names.index(keyword) for keyword in kwargs)
        before = parameters[: last + 1]
        if all(parameter in kwargs or text not in ("", UNKNOWN_DEFAULT) for parameter, _, text in before):
            values = (kwargs[parameter] if parameter in kwargs else default(text) for parameter, _, text in before)
            return (*args, *values)
    known = "".join(f"\n  declared: {signature(name, overload)}" for overload in overloads[:6])
    count = "1 argument" if len(args) == 1 else f"{len(args)} arguments"
    raise ArgumentError(f"{name}: no overload takes {', '.join(kwargs)} after {count}{known}")
