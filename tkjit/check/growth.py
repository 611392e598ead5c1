"""Chooses huge extents: for each dim, a call in which it is small, and one in which a tensor has over 2^32 elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import lcm
from typing import Any

from tkjit.check.arguments import tensors_in_order
from tkjit.check.cases import Case, case_without_memory
from tkjit.check.sizes import examples_of, multiples_of
from tkjit.spec import Spec, Variant

MAX_EXTENT = (1 << 31) - 1
_MOST_ELEMENTS = (1 << 32) + (1 << 26)  # of the largest tensor: a little more than 32 bits can count
# The extents differ by a multiple of one of these numbers, so that the last tile is cut off in the same place.
_STEPS = (107520, 6720, 420, 60, 12, 1)
_FEWEST_STEPS = 8
_LEADING = "..."


@dataclass(frozen=True)
class Growth:
    """Calls that differ in the extent of one dim.

    Parameters
    ----------
    sized : callable
        Returns the call in which the dim has an extent, or None if the spec rejects it.
    extent : int
        The dim's extent in the smallest call.
    step, steps : int
        The huge call's extent is ``extent + step * steps``.
    """

    sized: Callable[[int], Case | None]
    extent: int
    step: int
    steps: int


def growths(spec: Spec, variant: Variant, given: Mapping[str, Any], seed: int) -> Iterator[tuple[str, Growth | None]]:
    """Yield each dim that the caller has not chosen, with its growth, or None if the dim cannot grow alone.

    The first leading dim is called ``"..."``.

    Raises
    ------
    SpecError
        If ``prepare=`` needs the values of the tensors, or no example is for the variant.
    """
    base = next(iter(examples_of(spec, dict(variant.values), given)), dict(given))
    leading = tuple(base.pop(_LEADING, (3,) if any(f.leading for f in spec.tensors) else ()))
    case_of = partial(_case_of, spec, variant, base, seed)
    first = case_of({}, leading)
    if first is None:
        return
    multiples = multiples_of(spec, {**dict(variant.values), **given})
    for dim in (_LEADING, *first.extents):
        if dim in given or dim in dict(variant.values) or (dim == _LEADING and not leading):
            continue

        def sized(extent: int, dim: str = dim) -> Case | None:
            if dim == _LEADING:
                return case_of(first.extents, (extent, *leading[1:]))
            return case_of({**first.extents, dim: extent}, leading)

        extent = leading[0] if dim == _LEADING else first.extents[dim]
        yield dim, _largest(spec, multiples.get(dim, 1), sized, extent)


def _case_of(
    spec: Spec,
    variant: Variant,
    base: Mapping[str, Any],
    seed: int,
    extents: Mapping[str, int],
    leading: tuple[int, ...],
) -> Case | None:
    # an integer that equals a dim grows with it, so only other integers keep the example's values
    dims = {name.lower() for name in spec.dim_names}
    scalars = {name: value for name, value in base.items() if name in spec.dim_names or name.lower() not in dims}
    return case_without_memory(spec, variant, {**scalars, **extents}, leading, seed)


def _largest(spec: Spec, multiple: int, sized: Callable[[int], Case | None], extent: int) -> Growth | None:
    """Return the growth that makes a tensor as large as is needed, or as large as the spec allows.

    Parameters
    ----------
    multiple : int
        The spec accepts an extent only if it is a multiple of this number.
    """

    def elements(case: Case) -> int:
        return max((tensor.numel() for _, tensor in tensors_in_order(spec, case.arguments)), default=0)

    def is_allowed(steps: int) -> bool:
        """Whether the spec accepts the extent, and no tensor is larger than needed one step before."""
        case = sized(extent + step * steps) if extent + step * steps <= MAX_EXTENT else None
        before = sized(extent + step * (steps - 1)) if case is not None else None
        return case is not None and (before is None or elements(before) <= _MOST_ELEMENTS)

    for step in (lcm(one, multiple) for one in _STEPS):
        high = 1
        while is_allowed(high):
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_allowed(middle) else (low, middle)
        if low >= _FEWEST_STEPS or (low and step == multiple):
            return Growth(sized, extent, step, low)
    return None
