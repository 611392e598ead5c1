"""Python values that C++ has no type for, as those that it has one for."""

from __future__ import annotations

import operator
from typing import Any

from tkjit.errors import ArgumentError


def prepare(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with lists and foreign tensors as arrays of NumPy's, and functions as C++ names them.

    The same tuple where there is none of those.

    Raises
    ------
    ArgumentError
        If one cannot be an array.
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
                f"{name}: argument {position}: not all fit into a C++ int; pass an array of numpy.int64"
            )
        return narrow
    if array.dtype.kind not in "biufc":
        raise ArgumentError(f"{name}: argument {position}: a list of {array.dtype} is no array of numbers")
    return array


def _first_of(values: Any) -> Any:
    while isinstance(values, (list, tuple)) and values:
        values = values[0]
    return values
