"""Chooses strides for the strided tensors of test calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from tkjit.spec import Field, Spec, Variant
from tkjit.spec.variants import chooses


def strides_for(
    spec: Spec, variant: Variant, f: Field, shape: tuple[int, ...], known: Mapping[str, Any]
) -> tuple[int, ...]:
    """Return strides that the variant and the constraints allow. Strides with gaps are tried first.

    If none are allowed, return the first that were tried; the call then fails with the constraint's message.

    Parameters
    ----------
    known : mapping
        Extents, numbers and variants that are already chosen.
    """
    limits = [one for one in spec.constraints if any(name.startswith(f"{f.name}.stride(") for name in one.names)]
    for strides in _layouts(shape):
        values = {**known, **{f"{f.name}.stride({axis})": strides[axis] for axis in range(-len(shape), len(shape))}}
        is_allowed = all(one.evaluate(values) for one in limits if one.names <= values.keys())
        if is_allowed and chooses(spec, variant, values):
            return strides
    return next(_layouts(shape))


def _layouts(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield strides for rows padded by 3, rows padded to a multiple of 16, and dense rows; each in all axis orders."""
    if len(shape) < 2:
        yield from ((2,) * len(shape), (1,) * len(shape))
        return
    row_lengths = (lambda cols: cols + 3, lambda cols: cols // 16 * 16 + 16, lambda cols: cols)
    for length_for, order in itertools.product(row_lengths, itertools.permutations(range(len(shape)))):
        strides, step = [0] * len(shape), 1
        for axis in reversed(order):
            strides[axis] = step
            step *= length_for(shape[axis]) if axis == order[-1] else shape[axis]
        yield tuple(strides)
