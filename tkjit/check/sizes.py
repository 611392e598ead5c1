"""Chooses sizes for test calls: ordinary, smallest, prime, larger than a block, and long in one dim at a time."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from math import lcm, prod
from typing import Any

from tkjit.errors import SpecError
from tkjit.spec import Spec
from tkjit.spec.expr import Expr
from tkjit.spec.model import MISSING

# extents of the dims in each case, in the order of the dims' names; equal extents could hide that two dims are swapped
_ORDINARY = (64, 96, 128, 160, 192)
_PRIME = (53, 37, 71, 29, 43)  # in contrast to _ORDINARY, the first extent is larger than the second
_LARGER_THAN_A_BLOCK = (300, 259, 521, 283, 269)
Shape = tuple[Sequence[int], Sequence[int], tuple[int, ...]]
# for each case: extents; numbers of tiles (for dims that must be multiples of a tile); leading dims
SHAPES: tuple[Shape, ...] = (
    (_ORDINARY, (2, 3), ()),
    ((1,), (1,), (1,)),
    (_PRIME, (1, 5, 1), (3,)),
    (_LARGER_THAN_A_BLOCK, (3, 2), (2, 2)),
)
# One dim at a time is this long and the others as small as possible, so that loops over tiles run several times even if
# each block handles many tiles. The prime exceeds 1024, the most threads of a block.
_LONG, _LONG_TILES = 1031, 7
_LEAST_TILE = 32  # a dim that must be a multiple of a smaller number gets an ordinary extent
_MULTIPLES = (8, 16, 32, 64, 128, 256, 512, 1024)  # tried if the wanted sizes and their fractions violate a constraint
_A_MULTIPLE = re.compile(r"(\w+) % (\w+|\(.+\)) == 0")
MAX_TRIES = 4000


def shapes_for(spec: Spec, fixed: Mapping[str, Any]) -> Sequence[Shape]:
    """Return the entries of ``SHAPES`` and one with a long extent for each dim, or nothing if the spec has examples.

    If a tensor has only leading dims, each case gets one more leading dim, which is as large as the case's first
    extent. Two more cases are added: one with four leading dims, and one with none.
    """
    if spec.verification.examples:
        return ()
    free = [name for name in spec.dim_names if name not in fixed]
    has_leading = any(f.leading for f in spec.tensors)
    shapes = [*SHAPES]
    if any(f.leading and not f.dims for f in spec.tensors):
        shapes = [(sizes, tiles, (*leading, sizes[0])) for sizes, tiles, leading in SHAPES]
        shapes += [(_ORDINARY, (1,), (2, 3, 2, 37)), (_ORDINARY, (1,), ())]
    for name in free:
        is_long = [other == name for other in free]
        sizes, tiles = ([long if one else 1 for one in is_long] for long in (_LONG, _LONG_TILES))
        shapes.append((sizes, tiles, (1,)))
    if has_leading:
        shapes.append(((1,), (1,), (_LONG,)))
    return shapes if has_leading else [(sizes, tiles, ()) for sizes, tiles, _ in shapes]


def sizes_near(
    spec: Spec, wanted: Sequence[int], tiles: Sequence[int], fixed: Mapping[str, Any]
) -> Iterator[dict[str, int]]:
    """Yield extents of all dims, starting near the wanted ones; some of them violate the spec's constraints.

    Parameters
    ----------
    wanted : sequence of int
        Extents of the dims in the order of their names; repeated if there are more dims.
    tiles : sequence of int
        The numbers of tiles of those dims that must be multiples of a tile, by the dim's place; repeated likewise.
    fixed : mapping
        Extents, numbers and variants that are already chosen.
    """
    free = [name for name in spec.dim_names if name not in fixed]
    known = {name: fixed[name] for name in spec.dim_names if name in fixed}
    steps = multiples_of(spec, fixed)
    sizes = [
        steps[name] * tiles[i % len(tiles)] if steps.get(name, 1) >= _LEAST_TILE else wanted[i % len(wanted)]
        for i, name in enumerate(free)
    ]
    for last_divisor, other_divisor in itertools.product((1, 4), (1, 2, 4, 8, 16, 64)):
        # kernels usually loop over the last dim, so the others shrink first; odd extents stay odd
        divisors = [other_divisor] * (len(free) - 1) + [last_divisor]
        shrunk = [max(1, size // by | size & 1) for size, by in zip(sizes, divisors, strict=False)]
        rounded = [-(-size // steps.get(name, 1)) * steps.get(name, 1) for name, size in zip(free, shrunk, strict=True)]
        yield {**known, **dict(zip(free, rounded, strict=True))}
    nearest = [sorted(_MULTIPLES, key=lambda size, want=want: abs(size - want)) for want in sizes]  # type: ignore[misc]
    for chosen in itertools.product(*nearest):
        yield {**known, **dict(zip(free, chosen, strict=True))}


def multiples_of(spec: Spec, fixed: Mapping[str, Any]) -> dict[str, int]:
    """Map each dim to the number that it must be a multiple of, from constraints such as ``K % 64 == 0``."""
    steps: dict[str, int] = {}
    for constraint in spec.constraints:
        match = _A_MULTIPLE.fullmatch(constraint.text)
        if match is None:
            continue
        divisor = Expr.parse(match[2])
        if divisor.names <= fixed.keys() and (of := int(divisor.evaluate(fixed))) > 0:
            steps[match[1]] = lcm(steps.get(match[1], 1), of)
    return steps


def integers_for(spec: Spec, extents: Mapping[str, int], fixed: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Yield values for integers without a default.

    The first is the extent of the dim with the same name, if there is one. Otherwise, it is a small number that differs
    from the others if the constraints restrict the integer, and 1 if nothing says which values are right.
    """
    names = [f.name for f in spec.fields if f.is_integer and f.default is MISSING and f.name not in fixed]
    by_name = {name.lower(): size for name, size in extents.items()}
    always_1 = integers_always_1(spec)
    choices = [
        dict.fromkeys([by_name.get(name.lower(), 1 if name in always_1 else 2 + i), *extents.values(), 1])
        for i, name in enumerate(names)
    ]
    for chosen in itertools.product(*choices):
        yield dict(zip(names, chosen, strict=True))


def integers_always_1(spec: Spec) -> list[str]:
    """Return the integers that are 1 in every generated call, because no dim, default or constraint gives a value."""
    known = {name.lower() for name in spec.dim_names} | {name for one in spec.constraints for name in one.names}
    integers = [f.name for f in spec.fields if f.is_integer and f.default is MISSING]
    in_examples = set().union(*spec.verification.examples)
    return [name for name in integers if name not in in_examples and not {name, name.lower()} & known]


def is_small(spec: Spec, known: Mapping[str, Any], leading: Sequence[int], max_elements: Mapping[bool, int]) -> bool:
    """Whether no input exceeds ``max_elements``: False maps to the limit for up to two dims, True to that for more."""
    for f in spec.inputs:
        if not f.leading and not any(dim.names for dim in f.dims):
            continue  # its size is fixed
        # the case's leading dims count even if this tensor has none, because a large batched GEMM would take long
        sizes = (*leading, *(dim.evaluate(known) if set(dim.names) <= known.keys() else 1 for dim in f.dims))
        if prod(sizes) > max_elements[len(sizes) > 2]:
            return False
    return True


def settable(spec: Spec) -> set[str]:
    """Return the names that the sizes of a call may set: dims, variants, numbers, and optional tensors to omit."""
    given = {f.name for f in spec.fields if not f.is_tensor or f.optional}
    return {"...", *spec.dim_names, *dict(spec.variants), *given}


def examples_of(spec: Spec, variant: Mapping[str, Any], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a spec's examples for a variant, with the caller's choices; ``"..."`` is the key of the leading dims.

    Raises
    ------
    SpecError
        If an example sets something other than a dim, a number or a variant, or if none is for this variant.
    """
    for example in spec.verification.examples:
        if unknown := set(example) - settable(spec):
            raise SpecError(
                f"{spec.name}: examples= sets {', '.join(sorted(unknown))}, which is neither a dim nor a number"
            )
    fitting = [example for example in spec.verification.examples if _agree(example, variant)]
    if spec.verification.examples and not fitting:
        raise SpecError(f"{spec.name}: no example in examples= is for {variant}")
    return [{**example, **given} for example in fitting]


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())
