"""C++ text for Python values that stand for types and constants."""

from __future__ import annotations

import sys
from typing import Any

from tkjit.bindings.typed_numbers import NUMBERS
from tkjit.errors import ArgumentError

_TYPES: dict[Any, str] = {
    int: "int",
    float: "double",
    bool: "bool",
    complex: "std::complex<double>",
    str: "std::string",
    None: "void",
}
# of dtypes, by their letters
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
    """A template argument.

    Raises
    ------
    ArgumentError
        If it stands for nothing in C++.
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
    raise ArgumentError(f"{given!r} is no template argument: expected a type, an integer, or C++ text")


def template_arguments(given: tuple[Any, ...]) -> str:
    """Template arguments with their brackets; an empty list stands for no arguments."""
    every = [one for each in given for one in (each if isinstance(each, (list, tuple)) else [each])]
    return f"<{', '.join(map(template_argument, every))}>"


def _dtype_letter(given: Any) -> str:
    """The letter of a dtype of NumPy's, or of a class of its scalars."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not (
        isinstance(given, numpy.dtype) or (isinstance(given, type) and issubclass(given, numpy.generic))
    ):
        return ""
    return str(numpy.dtype(given).char)


def dtype_of(element: str) -> str:
    """The letter of NumPy's dtype for a C++ type; empty if there is none."""
    return next((letter for letter, text in _DTYPES.items() if text == element), "")
