"""Finds the names that a launch uses: dims, integers and constants."""

from __future__ import annotations

from tkjit.render.globals import computed_members
from tkjit.spec import CExpr, Field, Spec
from tkjit.spec.checks import DEV_IDX, NUM_DEVICES
from tkjit.spec.dim_order import derived_in_order
from tkjit.spec.expr import Expr


def launch_names(spec: Spec) -> tuple[list[str], list[tuple[str, Expr]]]:
    """Return the names and derived dims that the grid, block, shared memory and computed members use."""
    expressions = [expr for _, part in spec.launch.shape if isinstance(part, tuple) for expr in part]
    expressions += computed_members(spec).values()
    expressions += [
        Expr.parse(name) for _, part in spec.launch.shape if isinstance(part, CExpr) for name in used_names(spec, part)
    ]
    # these are already C++ constants of the same names, equal to the values in the call
    constants = spec.compile_time_integers
    derived = derived_in_order(spec, expressions, known=constants)
    names = {name for expr in [*expressions, *(expr for _, expr in derived)] for name in expr.names}
    names -= {name for name, _ in derived}
    return sorted(names - constants), derived


def origin_of(spec: Spec, name: str) -> Field:
    """Return the field whose argument determines a name's value."""
    if name in (DEV_IDX, NUM_DEVICES) and spec.is_parallel:
        return next(f for f in spec.struct_fields if f.is_parallel)
    by_name = {f.name: f for f in spec.fields}
    field, _, _ = name.partition(".")
    return by_name[field] if field in by_name else spec.binder(name)[0]


def used_names(spec: Spec, part: CExpr) -> list[str]:
    """Return the dims and integers that a C++ expression uses."""
    known = {*spec.dim_names, *dict(spec.derived), *(f.name for f in spec.fields if f.is_integer)}
    known |= {DEV_IDX, NUM_DEVICES} if spec.is_parallel else set()
    return sorted(part.names & known)
