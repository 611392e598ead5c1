"""Operators of bound classes: Python's, each as the C++ expression of the same meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tkjit.bindings.engine import Engine
from tkjit.bindings.forms import binary
from tkjit.errors import ArgumentError

BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "mod": "%",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
}
COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNARY = {"neg": "-", "pos": "+", "invert": "~"}


def operators(engine: Engine) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, sign in BINARY.items():
        found[f"__{name}__"] = _operator(engine, binary(sign), f"operator{sign}")
        found[f"__r{name}__"] = _operator(engine, f"{{1}} {sign} {{0}}", f"operator{sign}")
        found[f"__i{name}__"] = _in_place(engine, sign)
    for name, sign in COMPARED.items():
        found[f"__{name}__"] = _operator(engine, binary(sign), f"operator{sign}")
    for name, sign in _UNARY.items():
        found[f"__{name}__"] = _operator(engine, f"{sign}{{0}}", f"operator{sign}")
    found["__float__"] = _operator(engine, "static_cast<double>({0})", "conversion to double")
    to_integer = engine.function("static_cast<long long>({0})", "conversion to long long")
    found["__int__"] = lambda this: int(to_integer(this))  # Python wants a plain int
    return found


def _operator(engine: Engine, form: str, name: str) -> Any:
    return engine.method(form, name)


def _in_place(engine: Engine, sign: str) -> Callable[[Any, Any], Any]:
    call = engine.function(f"{{0}} {sign}= {{1}}", f"operator{sign}=")

    def in_place(this: Any, other: Any) -> Any:
        try:
            return call(this, other)
        except ArgumentError:
            return NotImplemented

    return in_place


def equality(engine: Engine) -> dict[str, Any]:
    equal = engine.function("static_cast<bool>({0} == {1})", "operator==")

    def __eq__(this: Any, other: Any) -> Any:
        try:
            return equal(this, other)
        except ArgumentError:
            return NotImplemented

    return {"__eq__": __eq__, "__hash__": None}
