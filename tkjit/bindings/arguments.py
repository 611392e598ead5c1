"""Python values that C++ has no type for, as those that it has one for."""

from __future__ import annotations

from typing import Any

from tkjit.errors import ArgumentError


def prepare(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with lists and foreign tensors as arrays of NumPy's.

    Raises
    ------
    ArgumentError
        If one cannot be an array.
    """
    return tuple(_prepare(name, position, value) for position, value in enumerate(args, 1))


def _prepare(name: str, position: int, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return _array_of(name, position, value)
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
    if array.dtype == numpy.int64 and all(type(value) is not numpy.int64 for value in numpy.ravel(values)[:1]):
        narrow = array.astype(numpy.int32)  # a Python int is a C++ int
        if not (narrow == array).all():
            raise ArgumentError(
                f"{name}: argument {position}: not all fit into a C++ int; pass an array of numpy.int64"
            )
        return narrow
    if array.dtype.kind not in "?biufc" and array.dtype.kind != "b":
        raise ArgumentError(f"{name}: argument {position}: a list of {array.dtype} is no array of numbers")
    return array
