"""Finds the C++ types of Python values, and defines Python numbers that remember the C++ type they were returned as."""

from __future__ import annotations

import sys
from typing import Any

from tkjit.errors import ArgumentError

_TYPES: dict[Any, str] = {
    int: "int",
    float: "double",
    bool: "bool",
    complex: "std::complex<double>",
    str: "std::string",
    None: "void",
}
# Maps NumPy's dtype.char to C++ types.
_DTYPES = {
    "?": "bool",
    "b": "signed char",
    "B": "unsigned char",
    "h": "short",
    "H": "unsigned short",
    "i": "int",
    "I": "unsigned int",
    "l": "long",
    "L": "unsigned long",
    "q": "long long",
    "Q": "unsigned long long",
    "f": "float",
    "d": "double",
    "g": "long double",
    "F": "std::complex<float>",
    "D": "std::complex<double>",
}


def template_argument(given: Any) -> str:
    """Return the C++ text of a template argument.

    Raises
    ------
    ArgumentError
        If the value has no C++ equivalent.
    """
    if isinstance(given, str):
        return given
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int) and type(given) in (int, *NUMBERS.values()):
        return str(given) if -(2**31) <= given < 2**31 else f"{given}ll"
    if (text := getattr(given, "__cpp__", None)) is not None:
        return str(text)
    if given is None or (isinstance(given, type) and given in _TYPES):
        return _TYPES[given]
    if (letter := _dtype_letter(given)) in _DTYPES:
        return _DTYPES[letter]
    raise ArgumentError(f"{given!r} is not a template argument: expected a type, an integer, or C++ text")


def template_arguments(given: tuple[Any, ...]) -> str:
    """Return the C++ text of template arguments, in angle brackets. Lists and tuples in ``given`` are flattened."""
    every = [one for each in given for one in (each if isinstance(each, (list, tuple)) else [each])]
    return f"<{', '.join(map(template_argument, every))}>"


def _dtype_letter(given: Any) -> str:
    """Return the ``dtype.char`` of a NumPy dtype or scalar class, or an empty text for any other value."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not (
        isinstance(given, numpy.dtype) or (isinstance(given, type) and issubclass(given, numpy.generic))
    ):
        return ""
    return str(numpy.dtype(given).char)


def dtype_of(element: str) -> str:
    """Return NumPy's ``dtype.char`` for a C++ type, or an empty text if NumPy has no such dtype."""
    return next((letter for letter, text in _DTYPES.items() if text == element), "")


_INTEGERS = (
    *("signed char", "unsigned char", "short", "unsigned short", "unsigned int"),
    *("long", "unsigned long", "long long", "unsigned long long"),
)
_FLOATS = ("float", "long double")


def _subclass(base: type, text: str) -> type:
    def __reduce__(self: Any) -> tuple[type, tuple[Any]]:
        return base, (base(self),)  # a copied or unpickled number is a plain Python number

    doc = f"A number that C++ returned as {text}. Arithmetic gives a plain {base.__name__}."
    members = {"__slots__": (), "__module__": __name__, "__doc__": doc, "__cpp__": text, "__reduce__": __reduce__}
    return type(text, (base,), members)


# Maps C++ types to the Python classes of their numbers.
NUMBERS = {
    **{text: _subclass(int, text) for text in _INTEGERS},
    **{text: _subclass(float, text) for text in _FLOATS},
}
