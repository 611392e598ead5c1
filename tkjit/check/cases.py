"""Generates test calls of a kernel: typical sizes, edge-case sizes, and values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from tkjit.errors import SpecError, TkjitError
from tkjit.spec import Field, Spec, Variant
from tkjit.spec.model import MISSING
from tkjit.spec.values import ValueType
from tkjit.torchlib.meta import meta_outputs, scratch_of

# a dim's extent in each case, by the dim's place among the names: no two alike where a mistake could hide behind it
_ORDINARY = (64, 96, 128, 160, 192)
_PRIME = (53, 37, 71, 29, 43)  # the first above the second, and not so in the other cases
_LARGER_THAN_A_BLOCK = (300, 259, 521, 283, 269)
_MULTIPLES = (8, 16, 32, 64, 128, 256, 512, 1024)  # tried where a constraint asks for something
_SHAPES = (  # with the extents of leading dims
    (_ORDINARY, ()),
    ((1,), (1,)),
    (_PRIME, (3,)),
    (_LARGER_THAN_A_BLOCK, (2, 2)),
)
# of a tensor of up to two dims, and of more: a checked access takes a tenth of a microsecond
_MAX_ELEMENTS = {False: 1 << 17, True: 1 << 15}
_MAX_TRIES = 4000


@dataclass(frozen=True)
class Case:
    """One call.

    Parameters
    ----------
    name : str
        What a person calls it: ``N=37``.
    arguments : mapping
        By field; outputs are there too, allocated and not yet written.
    """

    name: str
    arguments: Mapping[str, Any]


def cases_of(spec: Spec, variant: Variant, given: Mapping[str, Any], seed: int) -> list[Case]:
    """The cases of a variant.

    Parameters
    ----------
    given : mapping
        Extents of dims and values of scalars that the caller has chosen.

    Raises
    ------
    SpecError
        If a value cannot be made up, or no sizes satisfy the constraints.
    """
    unknown = set(given) - {*spec.dim_names, *(f.name for f in spec.fields if not f.is_tensor)}
    if unknown:
        raise SpecError(f"{spec.name} has no dim or number {', '.join(sorted(unknown))}")
    found: dict[str, Case] = {}
    for number, (sizes, leading) in enumerate(_SHAPES):
        maker = _CaseGenerator(spec, variant, given, seed + number, leading, absent=number % 2 == 1)
        case = maker.first_that_fits(sizes)
        if case is not None:
            found.setdefault(case.name, case)
    if not found:
        constraints = ", ".join(map(str, spec.constraints))
        raise SpecError(
            f"{spec.name}: no sizes were found for which {constraints or 'its dims fit'}; give some: --dim N=128"
        )
    return list(found.values())


def case_of_call(spec: Spec, arguments: Mapping[str, Any]) -> Case:
    """The case of a call that somebody brings; what it leaves out has its default."""
    values = {f.name: arguments.get(f.name, None if f.default is MISSING else f.default) for f in spec.fields}
    return Case("the given call", _with_outputs(spec, values))


def _with_outputs(spec: Spec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with outputs and scratch, full of what nobody has written."""
    made = meta_outputs(spec, arguments)
    missing = [f.name for f in spec.outputs if arguments.get(f.name) is None]
    filled = dict(arguments)
    for name, output in [*zip(missing, made, strict=True), *scratch_of(spec, arguments).items()]:
        if output.dtype == torch.bool:
            output.zero_()
        elif output.numel():
            output.view(torch.uint8).fill_(0xFF)
        filled[name] = output
    return filled


class _CaseGenerator:
    """Makes the arguments of one case."""

    def __init__(
        self,
        spec: Spec,
        variant: Variant,
        given: Mapping[str, Any],
        seed: int,
        leading: tuple[int, ...],
        *,
        absent: bool,
    ) -> None:
        self._spec, self._variant = spec, variant
        self._leading, self._absent = leading, absent
        self._random = torch.Generator().manual_seed(seed)
        fixed = {name: value for name, value in variant.values if isinstance(value, int)}
        self._fixed: dict[str, Any] = {**fixed, **given}

    def first_that_fits(self, sizes: Sequence[int]) -> Case | None:
        """The first sizes near the wanted ones that satisfy the spec; None if there are none."""
        for extents in itertools.islice(self._extents(sizes), _MAX_TRIES):
            if not self._is_small(extents):
                continue
            for integers in self._integers(extents):
                arguments = self._arguments(extents, integers)
                try:
                    return Case(self._name(extents, integers), _with_outputs(self._spec, arguments))
                except TkjitError:
                    continue
        return None

    def _extents(self, sizes: Sequence[int]) -> Iterator[dict[str, int]]:
        free = [name for name in self._spec.dim_names if name not in self._fixed]
        fixed = {name: self._fixed[name] for name in self._spec.dim_names if name in self._fixed}
        wanted = [sizes[i % len(sizes)] for i in range(len(free))]
        for of_the_last, smaller in itertools.product((1, 4), (1, 2, 4, 8, 16, 64)):
            # the last dim is what loops go over: the others shrink first, and what is odd stays odd
            divisors = [smaller] * (len(free) - 1) + [of_the_last]
            sized = [max(1, size // by | size & 1) for size, by in zip(wanted, divisors, strict=False)]
            yield {**fixed, **dict(zip(free, sized, strict=True))}
        nearest = [sorted(_MULTIPLES, key=lambda size, want=want: abs(size - want)) for want in wanted]  # type: ignore[misc]
        for chosen in itertools.product(*nearest):
            yield {**fixed, **dict(zip(free, chosen, strict=True))}

    def _is_small(self, extents: Mapping[str, int]) -> bool:
        known = {**self._fixed, **extents}
        for f in self._spec.inputs:
            # the case's leading dims count even where the tensor has none: a large GEMM would take long
            sizes = (*self._leading, *(dim.evaluate(known) if set(dim.names) <= known.keys() else 1 for dim in f.dims))
            if prod(sizes) > _MAX_ELEMENTS[len(sizes) > 2]:
                return False
        return True

    def _integers(self, extents: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Values for the integers that have no default: those of a dim of that name first, for it is most often one."""
        names = [
            f.name for f in self._spec.fields if f.is_integer and f.default is MISSING and f.name not in self._fixed
        ]
        by_name = {name.lower(): size for name, size in extents.items()}
        choices = [dict.fromkeys([by_name.get(name.lower(), 1), *extents.values(), 1]) for name in names]
        for chosen in itertools.product(*choices):
            yield dict(zip(names, chosen, strict=True))

    def _arguments(self, extents: Mapping[str, int], integers: Mapping[str, int]) -> dict[str, Any]:
        values = {**self._fixed, **integers}
        return {f.name: self._argument(f, extents, values) for f in self._spec.fields}

    def _argument(self, f: Field, extents: Mapping[str, int], values: Mapping[str, Any]) -> Any:
        if f.is_allocated:
            return None
        if f.name in values:
            return values[f.name]
        if f.name in self._spec.deciding:
            return dict(self._variant.values).get(f.name, "cpu")
        if f.optional and self._absent:
            return None
        if not f.is_tensor:
            return f.default if f.default is not MISSING else self._value(f)
        if f.is_list:
            tensors = [self._tensor(f, extents) for _ in range(min(3, f.max_length))]
            return [tensors[0], *(None for _ in tensors[1:2]), *tensors[2:]] if f.has_optional_items else tensors
        return self._tensor(f, extents)

    def _value(self, f: Field) -> Any:
        if f.value_type is not None:
            return _value_of(f.value_type, self._spec, f)
        return {"bool": True, "float": 0.75, "double": 0.75}.get(f.dtype, 1)

    def _tensor(self, f: Field, extents: Mapping[str, int]) -> torch.Tensor:
        known = {**self._fixed, **extents}
        for name, expr in self._spec.derived:
            known.setdefault(name, expr.evaluate(known))
        shape = (*(self._leading if f.leading else ())[: 4 - len(f.dims)], *(dim.evaluate(known) for dim in f.dims))
        if f.is_strided:
            shape = (*shape[:-1], shape[-1] + 3)  # what is sliced off below lies between the rows
        tensor = self._random_tensor(f, shape, extents)
        return tensor[..., : shape[-1] - 3] if f.is_strided else tensor

    def _random_tensor(self, f: Field, shape: tuple[int, ...], extents: Mapping[str, int]) -> torch.Tensor:
        dtype = getattr(torch, self._variant.dtype_of(f).name)
        if str(dtype) == "torch.float4_e2m1fn_x2":  # to which torch converts nothing
            return torch.randint(0, 256, shape, generator=self._random, dtype=torch.uint8).view(dtype)
        if dtype.is_floating_point or dtype.is_complex:
            return torch.randn(shape, generator=self._random, dtype=torch.cfloat if dtype.is_complex else None).to(
                dtype
            )
        if dtype == torch.bool:
            return torch.rand(shape, generator=self._random) < 0.5
        # small, since an integer is often an index
        most = max(1, min([2, *extents.values()]))
        return torch.randint(0, most, shape, generator=self._random).to(dtype)

    def _name(self, extents: Mapping[str, int], integers: Mapping[str, int]) -> str:
        leading = [f"leading {self._leading}"] if any(f.leading for f in self._spec.tensors) and self._leading else []
        absent = [f"no {f.name}" for f in self._spec.fields if f.optional and self._absent]
        sizes = [f"{name}={size}" for name, size in {**extents, **integers}.items()]
        return ", ".join([*sizes, *leading, *absent]) or "its only call"


def _value_of(value: ValueType, spec: Spec, f: Field) -> Any:
    made = {"i": 1, "f": 0.75, "b": True, "s": "text"}.get(value.code)
    if value.item is not None:
        made = [_value_of(value.item, spec, f)]
    if made is None:
        raise SpecError(
            f"{spec.name}: check cannot make up {f.name}, a {value.text}; give the call: tkjit.testing.check"
        )
    return made
