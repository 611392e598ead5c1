"""``Description``: the data of one overload, in four parts whose attributes it also offers directly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from tkjit.spec import dispatch_arguments
from tkjit.spec.annotations import CExpr
from tkjit.spec.expr import Expr
from tkjit.spec.headers import HeaderLibrary
from tkjit.spec.model import Backward, Benchmark, Compilation, Field, Launch, Operator, Parameters, Source, Verification

T = TypeVar("T")


class _PartAttribute(Generic[T]):
    """A read-only attribute that forwards to a part: ``spec.grid`` is ``spec.launch.grid``."""

    def __init__(self, part: str) -> None:
        self._part = part

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, spec: None, owner: type) -> _PartAttribute[T]: ...
    @overload
    def __get__(self, spec: object, owner: type) -> T: ...
    def __get__(self, spec: object | None, owner: type) -> _PartAttribute[T] | T:
        if spec is None:
            return self
        value: T = getattr(getattr(spec, self._part), self._name)
        return value


@dataclass(frozen=True)
class Description:
    """Everything about one overload.

    Parameters
    ----------
    parameters : Parameters
        The parameters and results.
    launch : Launch
        The launch configuration.
    compilation : Compilation
        The sources and the compiler options.
    operator : Operator
        The properties that concern Python and PyTorch.

    Attributes
    ----------
    fields, order, entry, grid, sources, doc, ...
        All attributes of the four parts, read-only.
    """

    name: str
    parameters: Parameters
    launch: Launch
    compilation: Compilation
    operator: Operator = field(default_factory=Operator)

    fields = _PartAttribute[tuple[Field, ...]]("parameters")
    order = _PartAttribute[tuple[str, ...]]("parameters")
    returns = _PartAttribute[tuple[str, ...]]("parameters")
    variants = _PartAttribute[tuple[tuple[str, tuple[str | int, ...]], ...]]("parameters")
    derived = _PartAttribute[tuple[tuple[str, Expr], ...]]("parameters")
    constraints = _PartAttribute[tuple[Expr, ...]]("parameters")
    tuning = _PartAttribute[tuple[tuple[str, tuple[int, ...]], ...]]("parameters")
    tuning_constraints = _PartAttribute[tuple[Expr, ...]]("parameters")
    struct = _PartAttribute[str | None]("parameters")
    args = _PartAttribute[bool]("parameters")
    computed = _PartAttribute[tuple[tuple[str, Expr], ...]]("parameters")
    trailing = _PartAttribute[tuple[str, ...]]("parameters")
    result = _PartAttribute[str]("parameters")

    entry = _PartAttribute[str]("launch")
    host = _PartAttribute[bool]("launch")
    grid = _PartAttribute[tuple[Expr, ...] | CExpr]("launch")
    block = _PartAttribute[tuple[Expr, ...] | CExpr]("launch")
    shared_memory = _PartAttribute[Expr | CExpr | None]("launch")
    cooperative = _PartAttribute[bool]("launch")
    cluster = _PartAttribute[tuple[int, ...]]("launch")
    pdl = _PartAttribute[bool]("launch")
    config = _PartAttribute[str | None]("launch")
    num_devices = _PartAttribute[int]("launch")

    sources = _PartAttribute[tuple[tuple[str, Source], ...]]("compilation")
    headers = _PartAttribute[tuple[HeaderLibrary, ...]]("compilation")
    std = _PartAttribute[str]("compilation")
    flags = _PartAttribute[tuple[str, ...]]("compilation")
    defines = _PartAttribute[tuple[tuple[str, str], ...]]("compilation")
    include_dirs = _PartAttribute[tuple[Path, ...]]("compilation")
    libraries = _PartAttribute[tuple[str, ...]]("compilation")
    compiler = _PartAttribute[str]("compilation")
    symbols = _PartAttribute[tuple[str, ...]]("compilation")

    doc = _PartAttribute[str]("operator")
    backward = _PartAttribute[Backward | None]("operator")
    deprecated = _PartAttribute[str]("operator")
    autocast = _PartAttribute[str | None]("operator")
    module = _PartAttribute[str]("operator")
    reference = _PartAttribute[Callable[..., Any] | None]("operator")
    verification = _PartAttribute[Verification]("operator")
    benchmark = _PartAttribute[Benchmark]("operator")

    @property
    def struct_fields(self) -> tuple[Field, ...]:
        """The fields in the order of the struct, which is also the order of a launcher's arguments."""
        by_name = {f.name: f for f in self.fields}
        return tuple(by_name[name] for name in self.order if name in by_name)

    @property
    def constants(self) -> tuple[Field, ...]:
        """The tensors that are copied into variables of the source instead of being passed to the kernel."""
        return tuple(f for f in self.fields if f.is_constant)

    @property
    def taken(self) -> tuple[str, ...]:
        """The names of the struct's members or the entry's arguments, in order; the constants are neither."""
        constants = {f.name for f in self.constants}
        return tuple(name for name in self.order if name not in constants)

    @property
    def is_parallel(self) -> bool:
        """Whether the kernel has a parallel layout, and so is launched on several devices."""
        return any(f.is_parallel for f in self.fields)

    @property
    def is_random(self) -> bool:
        """Whether the kernel draws random numbers, so that its results differ from the reference's."""
        return any(f.draws is not None for f in self.fields)

    @property
    def tensors(self) -> tuple[Field, ...]:
        return tuple(f for f in self.fields if f.is_tensor)

    @property
    def inputs(self) -> tuple[Field, ...]:
        """The tensors that a call passes, required ones first. The first tensor determines the device."""
        return tuple(sorted((f for f in self.tensors if f.is_input), key=lambda f: f.optional))

    @property
    def outputs(self) -> tuple[Field, ...]:
        return tuple(f for f in self.fields if f.direction == "out")

    @property
    def device_field(self) -> Field | None:
        """The argument that chooses the device of a call without tensors; None if a tensor determines it."""
        return dispatch_arguments.device_field(self.fields)

    @property
    def dtype_fields(self) -> tuple[Field, ...]:
        """The dtype arguments that choose the variant of the same name."""
        return dispatch_arguments.dtype_fields(self.fields, self.type_variants)

    @property
    def name_fields(self) -> tuple[Field, ...]:
        """The str arguments that choose the variant of the same name."""
        return dispatch_arguments.name_fields(self.fields, dict(self.variants))

    @property
    def deciding(self) -> frozenset[str]:
        """Arguments that are not passed to the kernel: the device, and dtypes and names that choose a variant."""
        return dispatch_arguments.deciding(self.fields, dict(self.variants))

    @property
    def scratch(self) -> tuple[Field, ...]:
        """The fields for a call's temporary memory."""
        return tuple(f for f in self.fields if f.direction == "scratch")

    @property
    def given(self) -> tuple[Field, ...]:
        """The fields that a call may pass: all except scratch."""
        return tuple(f for f in self.fields if f.direction != "scratch")

    @property
    def dim_names(self) -> tuple[str, ...]:
        """The dims that get their values from arguments' extents, in order of appearance."""
        names = (dim.text for f in self.fields if f.is_input for dim in f.dims)
        return tuple(dict.fromkeys(name for name in names if name.isidentifier()))

    def binder(self, dim: str) -> tuple[Field, int]:
        """Return the argument whose extent defines a dim (a required one if possible), and the extent's position."""
        found = [(f, i) for f in self.fields if f.is_input for i, expr in enumerate(f.dims) if expr.text == dim]
        return min(found, key=lambda pair: pair[0].optional)

    @property
    def type_variants(self) -> dict[str, tuple[str, ...]]:
        """The variants whose options are dtypes."""
        names = self.name_variants
        texts = ((name, options) for name, options in self.variants if isinstance(options[0], str))
        return {name: tuple(map(str, options)) for name, options in texts if name not in names}

    @property
    def name_variants(self) -> dict[str, tuple[str, ...]]:
        """The variants whose options are names defined in the source: enumerators or types."""
        variants = dict(self.variants)
        return {f.name: tuple(map(str, variants[f.name])) for f in self.name_fields}

    @property
    def integer_variants(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(map(int, options)) for name, options in self.variants if type(options[0]) is int}

    @property
    def compile_time_integers(self) -> frozenset[str]:
        """The names of integers that are constants in a launcher: integer variants and constants chosen by tuning."""
        return frozenset((*self.integer_variants, *dict(self.tuning)))

    @property
    def unknown_to_torch(self) -> tuple[Field, ...]:
        """The parameters that a PyTorch operator cannot have."""
        return tuple(f for f in self.fields if f.is_parallel or (f.value_type is not None and not f.value_type.schema))

    def dtypes_of(self, tensor: Field) -> tuple[str, ...]:
        """Return the dtypes that a tensor field accepts."""
        return self.type_variants.get(tensor.dtype, (tensor.dtype,))

    def source_for(self, arch: str) -> Source | None:
        """Return the source for an architecture (``"90a"``, ``"cpu"``), or None if the spec has no such source.

        It is the source for exactly this architecture, else the one for the latest earlier architecture whose code runs
        on this one, else the common source.
        """
        by_arch = dict(self.sources)
        if arch == "cpu" and "cpu" not in by_arch and "" not in by_arch and len(by_arch) == 1:
            return next(iter(by_arch.values()))  # the simulator takes the only source
        arch = arch.removeprefix("sm_")
        fitting = [known for known in by_arch if known == arch or _runs_on(known, arch)]
        if fitting:
            return by_arch[max(fitting, key=lambda known: (known == arch, _generation(known)))]
        return by_arch.get("")


def _generation(arch: str) -> int:
    """Return an architecture's number, or 0 if ``arch`` is not a GPU architecture."""
    digits = arch.rstrip("af")
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def _runs_on(known: str, arch: str) -> bool:
    """Return whether code for ``known`` runs on ``arch``.

    Plain code (``"90"``) runs on all later architectures. Code for a family (``"100f"``) runs only on later members of
    the family, and code for ``"90a"`` on no other architecture.
    """
    older = 0 < _generation(known) <= _generation(arch)
    if known.endswith("a"):
        return False
    return older and (not known.endswith("f") or _generation(known) // 10 == _generation(arch) // 10)
