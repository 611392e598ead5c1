"""A spec's variants: the template arguments that it can be compiled with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product
from math import prod
from typing import Any, TypeAlias

from tkjit.errors import SpecError
from tkjit.spec.annotations import CExpr
from tkjit.spec.dim_order import derived_in_order
from tkjit.spec.dtypes import BY_NAME, DType
from tkjit.spec.expr import Expr
from tkjit.spec.model import MISSING, Field
from tkjit.spec.spec import Spec

Configuration: TypeAlias = "tuple[tuple[str, int], ...]"  # a value for each constant that tuning chooses


@dataclass(frozen=True)
class Variant:
    """One choice for each name in a spec's ``variants``, in the order of ``variants``.

    Parameters
    ----------
    configuration : tuple of (str, int)
        The values of the constants in ``tune``, in that order; only launchers have them.

    Examples
    --------
    >>> str(Variant((("T", "float32"), ("D", 64))))
    'T=float32, D=64'
    """

    values: tuple[tuple[str, str | int], ...] = ()
    configuration: Configuration = ()

    def dtype_of(self, tensor: Field) -> DType:
        """Return the dtype that a tensor field has in this variant."""
        return BY_NAME[str(dict(self.values).get(tensor.dtype, tensor.dtype))]

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in (*self.values, *self.configuration))


def variants_of(spec: Spec, types: Iterable[str] = ()) -> tuple[Variant, ...]:
    """Return all variants of a spec, in the order of the indices that the glue computes.

    Parameters
    ----------
    types : iterable of str
        Keep only the variants whose dtypes are all among these.
    """
    names = [name for name, _ in spec.variants]
    found = (
        Variant(tuple(zip(names, values, strict=True)))
        for values in product(*(options for _, options in spec.variants))
    )
    keep = frozenset(types)
    types_of = spec.type_variants
    return tuple(v for v in found if not keep or all(value in keep for name, value in v.values if name in types_of))


def configurations_of(spec: Spec, variant: Variant) -> tuple[Configuration, ...]:
    """Return the configurations that tuning may choose for a variant, the default first.

    Raises
    ------
    SpecError
        If the constraints leave none.
    """
    fixed = {name: int(value) for name, value in variant.values if isinstance(value, int)}
    names = [name for name, _ in spec.tuning]
    found = tuple(
        tuple(zip(names, values, strict=True))
        for values in product(*(options for _, options in spec.tuning))
        if all(one.evaluate({**fixed, **dict(zip(names, values, strict=True))}) for one in spec.tuning_constraints)
    )
    if not found:
        raise SpecError(f"{spec.name}: the constraints leave no configuration for {variant}")
    return found


def configured(spec: Spec, variant: Variant, chosen: Mapping[str, int] | None = None) -> Variant:
    """Return a variant with a configuration: the chosen one if the spec allows it, otherwise the default."""
    if not spec.tuning:
        return variant
    allowed = configurations_of(spec, variant)
    wanted = tuple((name, (chosen or {}).get(name)) for name, _ in spec.tuning)
    return replace(variant, configuration=next((one for one in allowed if one == wanted), allowed[0]))


def chooses(spec: Spec, variant: Variant, sizes: Mapping[str, Any]) -> bool:
    """Return whether a call of these sizes may use this variant; a name that ``sizes`` does not set may have any value.

    Parameters
    ----------
    sizes : mapping
        Values for dims, numbers and variants.
    """
    chosen = dict(variant.values)
    if any(sizes.get(name, value) != value for name, value in chosen.items()):
        return False
    known = {f.name: f.default for f in spec.fields if f.is_integer and f.default is not MISSING}
    known |= {name: value for name, value in sizes.items() if isinstance(value, int)}
    for name, expr in derived_in_order(spec, [Expr.parse(name) for name in spec.integer_variants]):
        if expr.names <= known.keys():
            known[name] = expr.evaluate(known)
    return all(known.get(name, value) == value for name, value in chosen.items() if name in dict(spec.derived))


def with_names(spec: Spec, variant: Variant) -> Spec:
    """Replace each parameter that chooses a name with the chosen name, in the entry, struct and launch.

    The result describes a launch, and therefore has no ``backward=``, which may take such a parameter.

    Examples
    --------
    >>> import tkjit
    >>> with_names(tkjit.find("axpy").specs[0], Variant((("T", "float32"),))).entry
    'axpy<T>'
    """
    names = {name: str(value) for name, value in variant.values if name in spec.name_variants}
    if not names:
        return spec
    pattern = re.compile(rf"\b({'|'.join(names)})\b")

    def named(text: str) -> str:
        return pattern.sub(lambda found: names[found[1]], text)

    def of_launch(part: Any) -> Any:
        return replace(part, text=named(part.text)) if isinstance(part, CExpr) else part

    launch = replace(
        spec.launch,
        entry=named(spec.entry),
        config=spec.config and named(spec.config),
        grid=of_launch(spec.grid),
        block=of_launch(spec.block),
        shared_memory=of_launch(spec.shared_memory),
    )
    parameters = replace(
        spec.parameters,
        struct=spec.struct and named(spec.struct),
        fields=tuple(f for f in spec.fields if f.name not in names),
        variants=tuple((name, options) for name, options in spec.variants if name not in names),
    )
    return replace(spec, launch=launch, parameters=parameters, operator=replace(spec.operator, backward=None))


def known_variant(spec: Spec, variant: Variant) -> Variant | None:
    """Return the spec's own variant that equals ``variant`` (1 equals True), or None if there is none."""
    return next((known for known in variants_of(spec) if known == variant), None)


def first_variants(specs: Sequence[Spec]) -> list[int]:
    """Return the index of each overload's first variant, counted over all overloads, followed by the total."""
    counts = (prod(len(options) for _, options in spec.variants) for spec in specs)
    return list(accumulate(counts, initial=0))
