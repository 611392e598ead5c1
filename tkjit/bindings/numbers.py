"""Python classes for enumerations, and for references to numbers."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

from tkjit.bindings.declarations import Declared
from tkjit.bindings.engine import Engine
from tkjit.bindings.expressions import binary
from tkjit.bindings.protocols import BINARY, COMPARED

_SIGNS = {name: BINARY[name] for name in ("or", "and", "xor")}  # the operators that enumerations have


def number_class(engine: Engine, name: str) -> dict[str, Any]:
    """Return the attributes of the Python class for a C++ reference to a number, such as ``int&``."""
    load: Callable[[Any], Any] = engine.runtime.load
    write = engine.function("void({0} = {1})", f"{name} =")
    found: dict[str, Any] = {"value": property(load, write, doc="The number. It can be set.")}
    for each in (*BINARY, *COMPARED, "eq", "ne", "floordiv", "pow"):
        found[f"__{each}__"] = _on_numbers(load, getattr(operator, f"__{each}__"))
    for each in (*BINARY, "floordiv", "pow"):
        found[f"__r{each}__"] = _on_numbers_reversed(load, getattr(operator, f"__{each}__"))
        found[f"__i{each}__"] = _on_numbers_in_place(load, write, getattr(operator, f"__{each}__"))
    conversions: list[Callable[[Any], Any]] = [int, float, bool, repr, str]
    for function in conversions:
        each = function.__name__
        found[f"__{each}__"] = _of_number(load, function)
    for each in ("neg", "pos", "abs", "invert", "index"):
        found[f"__{each}__"] = _of_number(load, getattr(operator, f"__{each}__"))
    found["__hash__"] = None
    return found


def enumeration_class(engine: Engine, name: str) -> dict[str, Any]:
    """Return the attributes of the Python class for values that C++ returns as an enumeration."""
    load: Callable[[Any], int] = engine.runtime.load
    declared = engine.declarations.find(*_split(name))
    names = {value: text for text, value in declared.facts["values"].items()} if declared else {}

    def __eq__(this: Any, other: Any) -> bool:
        return load(this) == load(other) if type(this) is type(other) else NotImplemented

    def __repr__(this: Any) -> str:
        return f"{name}::{names[load(this)]}" if load(this) in names else f"{name}({load(this)})"

    return {
        **{f"__{each}__": engine.method(binary(sign), f"operator{sign}") for each, sign in _SIGNS.items()},
        "__eq__": __eq__,
        "__hash__": _of_number(load, hash),
        "__int__": _of_number(load, int),
        "__index__": _of_number(load, int),
        "__repr__": __repr__,
        "name": property(lambda this: names.get(load(this), "")),
        "value": property(load),
    }


def _split(name: str) -> tuple[str, str]:
    namespace, _, last = name.rpartition("::")
    return namespace, last


def _plain(load: Callable[[Any], Any], value: Any) -> Any:
    return load(value) if hasattr(type(value), "__cpp__") and hasattr(type(value), "value") else value


def _on_numbers(load: Callable[[Any], Any], function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda this, other: function(load(this), _plain(load, other))


def _on_numbers_reversed(load: Callable[[Any], Any], function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda this, other: function(_plain(load, other), load(this))


def _on_numbers_in_place(
    load: Callable[[Any], Any], write: Callable[[Any, Any], Any], function: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    def in_place(this: Any, other: Any) -> Any:
        write(this, function(load(this), _plain(load, other)))
        return this

    return in_place


def _of_number(load: Callable[[Any], Any], function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda this: function(load(this))


class Enumeration:
    """A C++ enumeration, whose values are attributes. Calling it with a number makes an object, like a cast in C++."""

    def __init__(self, engine: Engine, declared: Declared) -> None:
        self._engine = engine
        self._declared = declared
        self.__name__ = declared.name
        self.__doc__ = str(declared.facts.get("doc", "")) or None
        self.__cpp__ = declared.text
        self._make = engine.function(f"static_cast<{declared.text}>({{0}})", declared.qualified)
        self._values: dict[str, int] = declared.facts["values"]

    def __call__(self, value: int) -> Any:
        return self._make(int(value))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            near = difflib.get_close_matches(name, self._values, 3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise AttributeError(f"{self.__name__} has no {name}{hint}")
        engine = self._engine
        cls = _enumerator_class(engine.runtime)
        member = engine.runtime.constant(cls, engine.types, self.__cpp__, self._values[name])
        member.name, member.value, member.enumeration, member.engine = name, self._values[name], self._declared, engine
        setattr(self, name, member)
        return member

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return sorted(self._values)

    def __repr__(self) -> str:
        return f"<C++ enumeration {self._declared.qualified}>"


class _Enumerator:
    """A named value of an enumeration."""

    name: str
    value: int
    enumeration: Declared
    engine: Engine

    @property
    def __cpp__(self) -> str:
        return f"{self.enumeration.text}::{self.name}"

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Enumerator):
            return self.engine is other.engine and self.enumeration == other.enumeration and self.value == other.value
        type_text = getattr(type(other), "__cpp__", None)  # set if the other value was returned by C++
        return isinstance(type_text, str) and self._is_of(type_text) and self.value == int(other)  # type: ignore[call-overload]

    def _is_of(self, type_text: str) -> bool:
        return type_text == self.enumeration.text.removeprefix("::")

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return self.__cpp__.removeprefix("::")


def _operator(name: str) -> Callable[[Any, Any], Any]:
    form, text = binary(_SIGNS[name]), f"operator{_SIGNS[name]}"
    return lambda this, other: this.engine.function(form, text)(this, other)


@cache
def _enumerator_class(runtime: ModuleType) -> type:
    return type("Enumerator", (_Enumerator, runtime.Marked), {f"__{name}__": _operator(name) for name in _SIGNS})
