"""Specs for tests: read from a function, or built by hand from fields; and what a refused one says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tkjit import Spec, SpecError
from tkjit.spec import Field, Source, spec_of_function
from tkjit.spec.expr import Expr

SOURCE = "template <class T> __global__ void scale(const __grid_constant__ Globals g) {}"
F32 = "float32"


def read(function: Callable[..., Any], source: str | None = SOURCE, **options: Any) -> Spec:
    return spec_of_function(function, source, **{"entry": "scale<T>", "grid": 1, "block": 32, **options})


def field(name: str = "x", direction: str = "in", dtype: str = F32, *dims: str, **rest: Any) -> Field:
    return Field(name, direction, dtype, dims=tuple(map(Expr.parse, dims)), **rest)


def by_hand(*fields: Field, **changes: Any) -> Spec:
    """A spec built without a function, as tools do."""
    plain: dict[str, Any] = {
        "name": "scale",
        "entry": "scale",
        "fields": fields,
        "order": tuple(f.name for f in fields),
        "sources": (("", Source(text=SOURCE)),),
        "grid": (Expr.parse(1),),
        "block": (Expr.parse(32),),
    }
    return Spec(**plain | changes)


def refusal(make: Callable[[], object]) -> str:
    with pytest.raises(SpecError) as caught:
        make()
    return str(caught.value)
