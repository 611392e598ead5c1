"""Sorts a spec's derived dims into the order in which they can be computed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from graphlib import TopologicalSorter

from tkjit.spec.expr import Expr
from tkjit.spec.spec import Spec


def derived_in_order(spec: Spec, wanted: Iterable[Expr], known: Collection[str] = ()) -> list[tuple[str, Expr]]:
    """Return the derived dims that expressions need, each after the dims that it is computed from.

    Parameters
    ----------
    known : collection of str
        Dims whose values are known and need not be computed.
    """
    derived = {name: expr for name, expr in spec.derived if name not in known}
    needed: set[str] = set()
    pending = [name for expr in wanted for name in expr.names]
    while pending:
        name = pending.pop()
        if name in derived and name not in needed:
            needed.add(name)
            pending.extend(derived[name].names)
    order = TopologicalSorter({name: derived[name].names & derived.keys() for name in sorted(needed)}).static_order()
    return [(name, derived[name]) for name in order if name in needed]
