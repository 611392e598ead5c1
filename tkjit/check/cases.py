"""Generates test calls of a kernel, with typical sizes, edge-case sizes, and values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch

from tkjit.check.arguments import span, tensors_of
from tkjit.check.layouts import strides_for
from tkjit.check.sizes import MAX_TRIES, SHAPES, examples_of, integers_for, is_small, shapes_for, sizes_near
from tkjit.errors import SpecError, TkjitError
from tkjit.spec import Field, Spec, Variant
from tkjit.spec.model import MISSING
from tkjit.spec.values import ValueType
from tkjit.spec.variants import chooses
from tkjit.torchlib.meta import meta_outputs, scratch_of

_LARGE = 1 << 26  # an input with more elements than this is shared by all devices
DEVICES = 2  # devices in a call, if the spec leaves their number open
# The most elements of an input: False maps to the limit for up to two dims, True to the limit for more. The inputs are
# this small because a checked access takes about 0.1 us.
_MAX_ELEMENTS = {False: 1 << 16, True: 1 << 15}


@dataclass(frozen=True)
class Case:
    """A test call.

    Parameters
    ----------
    name : str
        Its name in reports, such as ``N=37``.
    arguments : mapping
        The arguments by field, including outputs, which are allocated but not yet written.
    extents : mapping
        The extents of the dims.
    """

    name: str
    arguments: Mapping[str, Any]
    extents: Mapping[str, int] = field(default_factory=dict)


def cases_of(
    spec: Spec,
    variant: Variant,
    given: Mapping[str, Any],
    seed: int,
    max_elements: Mapping[bool, int] = _MAX_ELEMENTS,
) -> list[Case]:
    """Generate the cases of a variant: the examples of its spec, or sizes that its constraints allow.

    Parameters
    ----------
    given : mapping
        Extents of dims and values of scalars that the caller has chosen.
    max_elements : mapping
        The most elements of an input: ``False`` maps to the limit for up to two dims, ``True`` to that for more.

    Raises
    ------
    SpecError
        If a value cannot be generated, or no sizes satisfy the constraints.
    """
    for name, value in given.items():
        if name in spec.dim_names and (type(value) is not int or value < 0):
            raise SpecError(f"{spec.name}: {name}={value!r} is not an extent; expected an integer of at least 0")
    unknown = set(given) - {*spec.dim_names, *(f.name for f in spec.fields if not f.is_tensor)}
    if unknown:
        raise SpecError(f"{spec.name} has no dim or number {', '.join(sorted(unknown))}")
    found: dict[str, Case] = {}
    for number, example in enumerate(examples_of(spec, dict(variant.values), given)):
        leading = tuple(example.pop("...", ()))
        maker = _CaseGenerator(spec, variant, example, seed + number, leading, max_elements, absent=False)
        if chooses(spec, variant, example):
            case = maker.of_example()
            found.setdefault(case.name, case)
    for number, (sizes, steps, leading) in enumerate(shapes_for(spec, {**dict(variant.values), **given})):
        maker = _CaseGenerator(spec, variant, given, seed + number, leading, max_elements, absent=number % 2 == 1)
        fitting = maker.first_that_fits(sizes, steps)
        if fitting is not None:
            found.setdefault(fitting.name, fitting)
    is_computed = bool(spec.integer_variants.keys() & dict(spec.derived))  # then no size may choose this variant
    if not found and not spec.verification.examples and not is_computed:
        constraints = ", ".join(map(str, spec.constraints))
        raise SpecError(
            f"{spec.name}: found no sizes for which {constraints or 'its dims fit'}; pass some, such as --dim N=128"
        )
    return list(found.values())


def case_of_sizes(spec: Spec, variant: Variant, sizes: Mapping[str, Any], seed: int, device: str) -> Case:
    """Return a case for sizes that set all dims, with tensors on a device.

    Raises
    ------
    TkjitError
        If the sizes do not satisfy the spec.
    """
    sizes = dict(sizes)
    leading = tuple(sizes.pop("...", ()))
    return _CaseGenerator(spec, variant, sizes, seed, leading, {}, absent=False, device=device).of_example()


def case_without_memory(
    spec: Spec, variant: Variant, given: Mapping[str, Any], leading: tuple[int, ...], seed: int
) -> Case | None:
    """Return a case with meta tensors, or None if the spec rejects its sizes; dims that are not given are ordinary."""
    no_limits = dict.fromkeys((False, True), 1 << 62)
    maker = _CaseGenerator(spec, variant, given, seed, leading, no_limits, absent=False, device="meta")
    shapes = shapes_for(spec, {**dict(variant.values), **given}) or SHAPES
    cases = (maker.first_that_fits(sizes, tiles) for sizes, tiles, _ in shapes)
    return next((case for case in cases if case is not None), None)


def case_of_call(spec: Spec, arguments: Mapping[str, Any]) -> Case:
    """Return a given call as a case; omitted arguments get their defaults."""
    values = {f.name: arguments.get(f.name, None if f.default is MISSING else f.default) for f in spec.fields}
    return Case("the given call", _with_outputs(spec, values))


def _with_outputs(
    spec: Spec, arguments: Mapping[str, Any], known: Mapping[str, int] | None = None, device: str = "cpu"
) -> dict[str, Any]:
    """Add outputs and scratch to the arguments, filled with 0xFF bytes (False for bools).

    Parameters
    ----------
    device : str
        The outputs' device if the kernel has no input tensor.
    """
    allocated = meta_outputs(spec, arguments, known, device)
    missing = [f.name for f in spec.outputs if arguments.get(f.name) is None]
    filled = dict(arguments)
    for name, output in [*zip(missing, allocated, strict=True), *scratch_of(spec, arguments, known, device).items()]:
        if output.dtype == torch.bool:
            output.zero_()
        elif output.numel():
            (output if output.dim() else output.view(1)).view(torch.uint8).fill_(0xFF)
        filled[name] = output
    return filled


class _CaseGenerator:
    """Generates one case."""

    def __init__(
        self,
        spec: Spec,
        variant: Variant,
        given: Mapping[str, Any],
        seed: int,
        leading: tuple[int, ...],
        max_elements: Mapping[bool, int],
        *,
        absent: bool,
        device: str = "cpu",
    ) -> None:
        self._spec, self._variant = spec, variant
        self._leading, self._absent = leading, absent
        self._max_elements = max_elements
        self._chosen = {name: value for name, value in given.items() if name not in dict(variant.values)}
        self._large: dict[str, torch.Tensor] = {}
        self._seed, self._is_meta = seed, device == "meta"
        self._random = torch.Generator("cpu" if self._is_meta else device).manual_seed(seed)
        fixed = {name: value for name, value in variant.values if isinstance(value, int)}
        devices = {"num_devices": spec.num_devices or DEVICES} if spec.is_parallel else {}
        self._fixed: dict[str, Any] = {**fixed, **devices, **given}

    def first_that_fits(self, sizes: Sequence[int], steps: Sequence[int]) -> Case | None:
        """Return a case for the first sizes near the wanted ones that satisfy the spec, or None if there are none."""
        for extents in itertools.islice(sizes_near(self._spec, sizes, steps, self._fixed), MAX_TRIES):
            has_choice = any(name not in self._fixed for name in self._spec.dim_names) or self._leading
            sizes_of_all = {**self._fixed, **extents}
            if has_choice and not is_small(self._spec, sizes_of_all, self._leading, self._max_elements):
                continue
            if not chooses(self._spec, self._variant, sizes_of_all):
                continue
            for integers in integers_for(self._spec, extents, self._fixed):
                arguments = self._arguments(extents, integers)
                try:
                    case = self._case(extents, integers, arguments)
                except TkjitError:
                    continue
                return self._prepared(case)
        return None

    def of_example(self) -> Case:
        """Return the case for an example of the spec, which sets all sizes.

        Raises
        ------
        TkjitError
            If the sizes do not satisfy the spec.
        """
        missing = [name for name in self._spec.dim_names if name not in self._fixed]
        if missing:
            raise SpecError(f"{self._spec.name}: an example in examples= does not set {', '.join(missing)}")
        extents = {name: self._fixed[name] for name in self._spec.dim_names}
        integers = next(integers_for(self._spec, extents, self._fixed))
        return self._prepared(self._case(extents, integers, self._arguments(extents, integers)))

    def _case(self, extents: Mapping[str, int], integers: Mapping[str, int], arguments: dict[str, Any]) -> Case:
        if self._spec.is_parallel:
            arguments = self._on_all_devices(extents, integers, arguments)
        else:
            arguments = _with_outputs(self._spec, arguments, device="meta" if self._is_meta else "cpu")
        return Case(self._name(extents, integers), arguments, extents)

    def _prepared(self, case: Case) -> Case:
        """Apply the spec's ``zeroed=`` and ``prepare=`` to the case."""
        for name in self._spec.verification.zeroed:
            for tensor in tensors_of(case.arguments[name]):
                tensor.zero_()
        prepare = self._spec.verification.prepare
        if prepare is None:
            return case
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self._seed)
                others = prepare(dict(case.arguments)) or {}
                unknown = set(others) - set(case.arguments)
        except Exception as error:  # prepare= may raise anything
            if self._is_meta:
                message = f"{self._spec.name}: --overflow uses tensors without values, but prepare= needs them: {error}"
                raise SpecError(message) from error
            message = f"{self._spec.name}: prepare= fails: {type(error).__name__}: {error}"
            raise SpecError(message) from error
        if unknown:
            raise SpecError(
                f"{self._spec.name}: prepare= returns {', '.join(sorted(unknown))}, which the kernel does not take"
            )
        return replace(case, arguments={**case.arguments, **others})

    def _on_all_devices(
        self, extents: Mapping[str, int], integers: Mapping[str, int], first: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the arguments with a list of tensors, one per device, for each tensor."""
        parts = [first, *(self._arguments(extents, integers) for _ in range(1, self._fixed["num_devices"]))]
        devices = [
            _with_outputs(self._spec, part, {"num_devices": len(parts), "dev_idx": i}) for i, part in enumerate(parts)
        ]
        tensors = {f.name for f in self._spec.tensors}
        return {
            name: [part[name] for part in devices] if name in tensors and value is not None else value
            for name, value in devices[0].items()
        }

    def _arguments(self, extents: Mapping[str, int], integers: Mapping[str, int]) -> dict[str, Any]:
        values = {**self._fixed, **integers}
        defaults = {f.name: f.default for f in self._spec.fields if f.is_integer and f.default is not MISSING}
        known = {**defaults, **values, **extents}
        for name, expr in self._spec.derived:
            if name not in known and expr.names <= known.keys():
                known[name] = expr.evaluate(known)
        return {f.name: self._argument(f, known, values) for f in self._spec.fields}

    def _argument(self, f: Field, known: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
        if f.is_allocated:
            return None
        if f.name in values:
            return values[f.name]
        if f.name in self._spec.deciding:
            return dict(self._variant.values).get(f.name, self._random.device)
        if f.optional and self._absent:
            return None
        if not f.is_tensor:
            return f.default if f.default is not MISSING else self._value(f)
        if f.is_list:
            tensors = [self._tensor(f, known) for _ in range(min(3, f.max_length))]
            return [tensors[0], *(None for _ in tensors[1:2]), *tensors[2:]] if f.has_optional_items else tensors
        return self._tensor(f, known)

    def _value(self, f: Field) -> Any:
        if f.value_type is not None:
            return _value_of(f.value_type, self._spec, f)
        return {"bool": True, "float": 0.75, "double": 0.75}.get(f.dtype, 1)

    def _tensor(self, f: Field, known: Mapping[str, Any]) -> torch.Tensor:
        shape = (*(self._leading if f.leading else ())[: 4 - len(f.dims)], *(dim.evaluate(known) for dim in f.dims))
        if f.is_strided:
            return self._strided_tensor(f, shape, known)
        if self._spec.is_parallel and f.direction == "in" and prod(shape) > _LARGE:
            if f.name not in self._large:
                self._large[f.name] = self._random_tensor(f, shape, known)
            return self._large[f.name]
        return self._random_tensor(f, shape, known)

    def _strided_tensor(self, f: Field, shape: tuple[int, ...], known: Mapping[str, Any]) -> torch.Tensor:
        strides = strides_for(self._spec, self._variant, f, shape, known)
        return self._random_tensor(f, (span(shape, strides),), known).as_strided(shape, strides)

    def _random_tensor(self, f: Field, shape: tuple[int, ...], known: Mapping[str, Any]) -> torch.Tensor:
        dtype = getattr(torch, self._variant.dtype_of(f).name)
        if self._is_meta:
            return torch.empty(shape, dtype=dtype, device="meta")
        source: Any = {"generator": self._random, "device": self._random.device}
        if str(dtype) == "torch.float4_e2m1fn_x2":  # torch cannot convert to this dtype
            return torch.randint(0, 256, shape, dtype=torch.uint8, **source).view(dtype)
        if dtype.is_floating_point or dtype.is_complex:
            return torch.randn(shape, dtype=torch.cfloat if dtype.is_complex else None, **source).to(dtype)
        if dtype == torch.bool:
            return torch.rand(shape, **source) < 0.5
        return torch.randint(0, self._end_of_indices(dtype, known), shape, **source).to(dtype)

    def _end_of_indices(self, dtype: torch.dtype, known: Mapping[str, Any]) -> int:
        """Return the exclusive upper bound of an input's random integers.

        Each integer below the bound is a valid index of every dim. Dims that are not known yet count as 2.
        """
        dims = [dim for f in self._spec.tensors for dim in f.dims if dim.text != "1"]
        sizes = [int(dim.evaluate(known)) if dim.names <= known.keys() else 2 for dim in dims]
        leading = self._leading if any(f.leading for f in self._spec.tensors) else ()
        extents = [int(known[name]) for name in self._spec.dim_names if name in known]
        return max(1, min([torch.iinfo(dtype).max, *sizes, *leading, *extents]))

    def _name(self, extents: Mapping[str, int], integers: Mapping[str, int]) -> str:
        """Return a name for the case, from its sizes, given numbers, leading dims and omitted arguments."""
        is_leading = any(f.leading and (self._leading or not f.dims) for f in self._spec.tensors)
        leading = [f"leading {self._leading}"] if is_leading else []
        absent = [f"no {f.name}" for f in self._spec.fields if f.optional and self._absent]
        absent += [f"no {name}" for name, value in self._chosen.items() if value is None]
        named = {**extents, **integers, **self._chosen}
        sizes = [f"{name}={size}" for name, size in named.items() if size is not None]
        return ", ".join([*sizes, *leading, *absent]) or "the only call"


def _value_of(value: ValueType, spec: Spec, f: Field) -> Any:
    generated = {"i": 1, "f": 0.75, "b": True, "s": "text"}.get(value.code)
    if value.item is not None:  # an array in a struct of the source always has its full length
        generated = [_value_of(value.item, spec, f)] * (f.max_length if spec.struct else 1)
    if value.members:
        generated = tuple([1] * member.array if member.array else 1 for member in value.members)
    if generated is None:
        raise SpecError(
            f"{spec.name}: check cannot generate {f.name}, a {value.text}; pass the arguments to tkjit.testing.check"
        )
    return generated
