"""Numbers that C++ has returned and that keep their C++ type, so that they have it when they are passed back.

Python's ``int`` and ``float`` are passed as C++'s ``int`` and ``double``. If a C++ ``float`` came back as a plain
``float``, it would be a ``double`` in the next call, and ``rotate(matrix, angle, axis)`` could not deduce one type for
both.
"""

from __future__ import annotations

from typing import Any

_INTEGERS = (
    *("signed char", "unsigned char", "short", "unsigned short", "unsigned int"),
    *("long", "unsigned long", "long long", "unsigned long long"),
)
_FLOATS = ("float", "long double")


def _subclass(base: type, text: str) -> type:
    def __reduce__(self: Any) -> tuple[type, tuple[Any]]:
        return base, (base(self),)  # a copy, or a pickled number, is a plain one

    doc = f"A number that C++ returned as {text}. Arithmetic gives a plain {base.__name__}."
    members = {"__slots__": (), "__module__": __name__, "__doc__": doc, "__cpp__": text, "__reduce__": __reduce__}
    return type(text, (base,), members)


# by their C++ types
NUMBERS = {
    **{text: _subclass(int, text) for text in _INTEGERS},
    **{text: _subclass(float, text) for text in _FLOATS},
}
