"""Specs for tests, read from a function or built by hand from fields, and the errors of invalid ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tkjit import Spec, SpecError
from tkjit.spec import Compilation, Field, Launch, Operator, Parameters, Source, spec_of_function
from tkjit.spec.expr import Expr

SOURCE = "template <class T> __global__ void scale(const __grid_constant__ Globals g) {}"
F32 = "float32"
PARTS = {"parameters": Parameters, "launch": Launch, "compilation": Compilation, "operator": Operator}


def read(function: Callable[..., Any], source: str | None = SOURCE, **options: Any) -> Spec:
    return spec_of_function(function, source, **{"entry": "scale<T>", "grid": 1, "block": 32, **options})


def field(name: str = "x", direction: str = "in", dtype: str = F32, *dims: str, **rest: Any) -> Field:
    return Field(name, direction, dtype, dims=tuple(map(Expr.parse, dims)), **rest)


def by_hand(*fields: Field, **changes: Any) -> Spec:
    """Build a spec without a function, as tools do."""
    plain: dict[str, Any] = {
        "entry": "scale",
        "fields": fields,
        "order": tuple(f.name for f in fields),
        "sources": (("", Source(text=SOURCE)),),
        "grid": (Expr.parse(1),),
        "block": (Expr.parse(32),),
    }
    return spec_of(**{"name": "scale", **plain, **changes})


def spec_of(name: str, **attributes: Any) -> Spec:
    """Build a spec from attributes, and assign each to the part to which it belongs."""
    parts = {part: kind(**_of(kind, attributes)) for part, kind in PARTS.items()}
    assert not set(attributes) - {name for kind in PARTS.values() for name in _of(kind, attributes)}
    return Spec(name, **parts)


def changed(spec: Spec, **attributes: Any) -> Spec:
    """Return a spec with some attributes changed."""
    parts = {part: dataclasses.replace(getattr(spec, part), **_of(kind, attributes)) for part, kind in PARTS.items()}
    return dataclasses.replace(spec, **parts)


def _of(kind: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    return {f.name: attributes[f.name] for f in dataclasses.fields(kind) if f.name in attributes}


def refusal(make: Callable[[], object]) -> str:
    with pytest.raises(SpecError) as caught:
        make()
    return str(caught.value)
