"""References to numbers, and values of enumerations: what they do in Python."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tkjit.bindings.engine import Engine
from tkjit.bindings.forms import binary
from tkjit.bindings.operators import BINARY, COMPARED


def number_class(engine: Engine, name: str) -> dict[str, Any]:
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
    load: Callable[[Any], int] = engine.runtime.load
    declared = engine.declarations.find(*_split(name))
    names = {value: one for one, value in declared.facts["values"].items()} if declared else {}

    def __eq__(this: Any, other: Any) -> bool:
        return load(this) == load(other) if type(this) is type(other) else NotImplemented

    def __repr__(this: Any) -> str:
        return f"{name}::{names[load(this)]}" if load(this) in names else f"{name}({load(this)})"

    signs = {name: BINARY[name] for name in ("or", "and", "xor")}
    return {
        **{f"__{each}__": engine.method(binary(sign), f"operator{sign}") for each, sign in signs.items()},
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
