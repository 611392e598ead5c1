"""A spec's variants: the template types and integers that it can be compiled with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from math import prod

from tkjit.spec.dtypes import BY_NAME, DType
from tkjit.spec.model import Field
from tkjit.spec.spec import Spec


@dataclass(frozen=True)
class Variant:
    """One choice for each name of a spec's ``variants``, in that order.

    Examples
    --------
    >>> str(Variant((("T", "float32"), ("D", 64))))
    'T=float32, D=64'
    """

    values: tuple[tuple[str, str | int], ...] = ()

    def dtype_of(self, tensor: Field) -> DType:
        """The dtype that a tensor field has in this variant."""
        return BY_NAME[str(dict(self.values).get(tensor.dtype, tensor.dtype))]

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values)


def variants_of(spec: Spec, types: Iterable[str] = ()) -> tuple[Variant, ...]:
    """Every variant of a spec; its position is the index that the glue computes.

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
    return tuple(v for v in found if not keep or all(value in keep for _, value in v.values if isinstance(value, str)))


def known_variant(spec: Spec, variant: Variant) -> Variant | None:
    """The variant of a spec that equals another, with the spec's own values (1 equals True); None if there is none."""
    return next((known for known in variants_of(spec) if known == variant), None)


def first_variants(specs: Sequence[Spec]) -> list[int]:
    """The number of each overload's first variant, counted through all overloads, and then their total."""
    counts = (prod(len(options) for _, options in spec.variants) for spec in specs)
    return list(accumulate(counts, initial=0))
