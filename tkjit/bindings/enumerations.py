"""C++ enumerations: their values are known from their declaration, and need not be compiled."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

from tkjit.bindings.declarations import Declared
from tkjit.bindings.engine import Engine
from tkjit.bindings.forms import binary
from tkjit.bindings.operators import BINARY

_SIGNS = {name: BINARY[name] for name in ("or", "and", "xor")}


class Enumeration:
    """A C++ enumeration: its values are attributes. Called with a number it makes an object, as C++'s cast does."""

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
            raise AttributeError(f"{self.__name__} has no {name}" + (f"; is it {' or '.join(near)}?" if near else ""))
        engine = self._engine
        cls = _enumerator_class(engine.runtime)
        made = engine.runtime.constant(cls, engine.types, self.__cpp__, self._values[name])
        made.name, made.value, made.enumeration, made.engine = name, self._values[name], self._declared, engine
        setattr(self, name, made)
        return made

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return sorted(self._values)

    def __repr__(self) -> str:
        return f"<C++ enumeration {self._declared.qualified}>"


class _Enumerator:
    """A value of an enumeration, by its name."""

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
        type_text = getattr(type(other), "__cpp__", None)  # of what C++ has returned
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
