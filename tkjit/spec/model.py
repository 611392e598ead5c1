"""Spec and Field: frozen values that say everything about one overload, and refuse to contradict themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from tkjit.errors import SpecError
from tkjit.expr import EXTENTS, Expr
from tkjit.spec.dtypes import BY_NAME, SCALAR_TYPES

MAX_DIMS = 4
MAX_OUTPUTS = 32  # kMaxOutputs of runtime/glue.h
CPP_KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class "
    "compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline "
    "int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch "
    "template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile "
    "wchar_t while xor xor_eq".split()
)
RESERVED = ("out", "stream", "self", "Globals", "min", "max", "cdiv")


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@dataclass(frozen=True)
class Source:
    """A kernel's source: a file, or its text where it was written in a notebook."""

    path: Path | None = None
    text: str | None = None

    @property
    def name(self) -> str:
        """What error messages and ``#line`` call it."""
        return self.path.name if self.path else "inline.cu"

    def read(self) -> str:
        """The text.

        Raises
        ------
        SpecError
            If the file cannot be read.
        """
        if self.path is None:
            return self.text or ""
        try:
            return self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"cannot read the source {self.path}: {error}") from None


@dataclass(frozen=True)
class Field:
    """One parameter of the kernel and one member of its globals struct.

    Parameters
    ----------
    direction : {"in", "inout", "out", "scalar"}
        ``"scalar"`` is a number; the others are global layouts.
    dtype : str
        A tensor's dtype or the variant that stands for it; a scalar's C++ type.
    dims : tuple of Expr
        The tensor's dims, leftmost first.
    leading : bool
        Whether any number of further dims may stand before ``dims`` (``"... N"``).
    default : object
        ``MISSING``, or what an absent argument means.
    align_bytes : int
        The alignment that the pointer must have; 0 for the dtype's own.
    cpp_type : str or None
        The member's C++ type where it is not ``tkjit::gl``.
    """

    name: str
    direction: str
    dtype: str
    dims: tuple[Expr, ...] = ()
    leading: bool = False
    optional: bool = False
    default: Any = MISSING
    keyword_only: bool = False
    align_bytes: int = 0
    cpp_type: str | None = None

    @property
    def is_tensor(self) -> bool:
        return self.direction != "scalar"

    @property
    def is_written(self) -> bool:
        return self.direction in ("inout", "out")

    @property
    def is_required(self) -> bool:
        return self.default is MISSING and not self.optional and self.direction != "out"

    @property
    def is_integer(self) -> bool:
        """Whether expressions may use it."""
        return self.direction == "scalar" and SCALAR_TYPES[self.dtype] is not None


@dataclass(frozen=True)
class Spec:
    """Everything about one overload.

    Parameters
    ----------
    entry : str
        The ``__global__`` function, with template arguments: ``"axpy<T>"``; a host function where ``host``.
    fields : tuple of Field
        In the order of the kernel's parameters.
    order : tuple of str
        The fields' names in the order of the struct.
    sources : tuple of (str, Source)
        By architecture (``"90a"``, ``"cpu"``); ``""`` serves every one that has none of its own.
    variants : tuple of (str, tuple)
        Each template parameter with its dtype names or integers.
    derived : tuple of (str, Expr)
        Dims computed from others.
    returns : tuple of str
        The fields that a call returns.
    """

    name: str
    entry: str
    fields: tuple[Field, ...]
    order: tuple[str, ...]
    sources: tuple[tuple[str, Source], ...]
    variants: tuple[tuple[str, tuple[str | int, ...]], ...] = ()
    derived: tuple[tuple[str, Expr], ...] = ()
    grid: tuple[Expr, ...] = ()
    block: tuple[Expr, ...] = ()
    shared_memory: Expr | None = None
    constraints: tuple[Expr, ...] = ()
    struct: str | None = None
    args: bool = False
    host: bool = False
    flags: tuple[str, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()
    include_dirs: tuple[Path, ...] = ()
    libraries: tuple[str, ...] = ()
    std: str = "c++20"
    returns: tuple[str, ...] = ()
    doc: str = ""
    reference: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_names(self)
        _check_dtypes(self)
        _check_dims(self)
        _check_launch(self)

    @property
    def struct_fields(self) -> tuple[Field, ...]:
        """The fields in the order of the struct, which is that of a launcher's arguments."""
        by_name = {f.name: f for f in self.fields}
        return tuple(by_name[name] for name in self.order)

    @property
    def tensors(self) -> tuple[Field, ...]:
        return tuple(f for f in self.fields if f.is_tensor)

    @property
    def dim_names(self) -> tuple[str, ...]:
        """Dims that an argument's extents bind, in the order in which they are met."""
        names = (dim.text for f in self.fields if f.direction in ("in", "inout") for dim in f.dims)
        return tuple(dict.fromkeys(name for name in names if name.isidentifier()))

    def binder(self, dim: str) -> tuple[Field, int]:
        """The argument whose extent gives a dim its value, and which of its dims that is; a required one if there is."""
        found = [
            (f, i)
            for f in self.fields
            if f.direction in ("in", "inout")
            for i, expr in enumerate(f.dims)
            if expr.text == dim
        ]
        return min(found, key=lambda pair: pair[0].optional)

    @property
    def type_variants(self) -> dict[str, tuple[str, ...]]:
        return {name: tuple(map(str, options)) for name, options in self.variants if isinstance(options[0], str)}

    @property
    def integer_variants(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(map(int, options)) for name, options in self.variants if isinstance(options[0], int)}

    def dtypes_of(self, tensor: Field) -> tuple[str, ...]:
        """The dtypes that a tensor field takes."""
        return self.type_variants.get(tensor.dtype, (tensor.dtype,))

    def source_for(self, arch: str) -> Source | None:
        """The most specific source for an architecture (``"90a"``, ``"cpu"``): its own, an older one's, the common one."""
        by_arch = dict(self.sources)
        if arch in by_arch:
            return by_arch[arch]
        if arch != "cpu":
            older = [known for known in by_arch if known.isdigit() and int(known) <= int(arch.rstrip("af"))]
            if older:
                return by_arch[max(older, key=int)]
        elif "" not in by_arch and len(by_arch) == 1:
            return next(iter(by_arch.values()))  # the simulator takes the one source there is
        return by_arch.get("")


def _fail(spec: Spec, text: str) -> None:
    raise SpecError(f"{spec.name}: {text}")


def _check_names(spec: Spec) -> None:
    if not spec.name.isidentifier():
        _fail(spec, f"the kernel's name {spec.name!r} is not an identifier")
    if not any(f.is_tensor and f.is_required for f in spec.fields):
        _fail(spec, "no required tensor argument, so a call cannot say on which device it runs")
    if sum(f.direction == "out" for f in spec.fields) > MAX_OUTPUTS:
        _fail(spec, f"more than {MAX_OUTPUTS} outputs")
    for name in [*(f.name for f in spec.fields), *spec.dim_names, *dict(spec.variants), *dict(spec.derived)]:
        if name in CPP_KEYWORDS or not name.isascii() or not name.isidentifier():
            _fail(spec, f"the name {name} cannot be used in C++")
    tensors = {f.name for f in spec.tensors}
    for name in [*spec.dim_names, *dict(spec.variants), *dict(spec.derived)]:
        if name in tensors:
            _fail(spec, f"{name} names a tensor and a dim or variant")
    seen: set[str] = set()
    for f in spec.fields:
        if f.name in seen:
            _fail(spec, f"the field {f.name} is given twice")
        if f.name in RESERVED or f.name.startswith("tkjit_"):
            _fail(spec, f"a field cannot be named {f.name}: the name is tkjit's")
        seen.add(f.name)
    if len(set(spec.order)) != len(spec.order):
        _fail(spec, f"fields={' '.join(spec.order)!r} names a field twice")
    if set(spec.order) != seen:
        _fail(spec, f"fields={' '.join(spec.order)!r} does not name each parameter once: {', '.join(sorted(seen))}")
    for name, options in spec.variants:
        if not options or len({type(option) for option in options}) != 1 or type(options[0]) not in (str, int):
            _fail(spec, f"variants[{name!r}] is {options!r}; expected dtype names, or integers")
        if len(set(options)) != len(options):
            _fail(spec, f"variants[{name!r}] names an option twice: {options!r}")
        if name in seen and isinstance(options[0], str):
            _fail(spec, f"{name} is a field and a dtype variant")


def _check_dtypes(spec: Spec) -> None:
    types = spec.type_variants
    for name, options in types.items():
        for option in options:
            if option not in BY_NAME:
                _fail(spec, f"variants[{name!r}]: unknown dtype {option!r}; known are {', '.join(BY_NAME)}")
        if not any(f.dtype == name and f.is_tensor and f.direction != "out" and not f.optional for f in spec.fields):
            _fail(spec, f"no required tensor argument has the dtype {name}, so a call cannot choose its variant")
    for f in spec.fields:
        if f.is_tensor and f.dtype not in BY_NAME and f.dtype not in types:
            _fail(spec, f"{f.name}: unknown dtype {f.dtype!r}; known are {', '.join([*types, *BY_NAME])}")
        if not f.is_tensor and f.dtype not in SCALAR_TYPES:
            _fail(spec, f"{f.name}: unknown scalar type {f.dtype!r}; known are {', '.join(SCALAR_TYPES)}")


def _bound_names(spec: Spec) -> set[str]:
    """Every name that an expression may use when all arguments are read."""
    tensors = {f"{f.name}.{extent}" for f in spec.tensors if f.direction != "out" for extent in EXTENTS}
    return {*spec.dim_names, *(f.name for f in spec.fields if f.is_integer), *tensors}


def _check_dims(spec: Spec) -> None:
    bound = _bound_names(spec)
    for f in spec.tensors:
        if len(f.dims) > MAX_DIMS:
            _fail(spec, f"{f.name} has {len(f.dims)} dims; a global layout has at most {MAX_DIMS}")
        if f.leading and f.direction == "out" and not any(g.leading for g in spec.tensors if g.direction != "out"):
            _fail(spec, f"{f.name}: no argument says what its leading dims '...' are")
        for dim in f.dims:
            if dim.text.lstrip("-").isdigit() and int(dim.text) < 0:
                _fail(spec, f"{f.name}: the dim {dim} is negative")
    derived = dict(spec.derived)
    for name in derived:
        if name in bound:
            _fail(spec, f"dims[{name!r}] is already bound by an argument")
    try:
        tuple(TopologicalSorter({name: expr.names & derived.keys() for name, expr in spec.derived}).static_order())
    except CycleError as error:
        _fail(spec, f"circular shape: {' -> '.join(map(str, error.args[1]))}")
    known = bound | derived.keys()
    for where, expr in _expressions(spec):
        for name in sorted(expr.names - known):
            _fail(
                spec,
                f"{where}: undefined dim {name} in {expr.text!r}; defined are {', '.join(sorted(n for n in known if '.' not in n)) or 'none'}",
            )
    integer_fields = {f.name for f in spec.fields if f.is_integer}
    for name in spec.integer_variants:
        if name not in spec.dim_names and name not in integer_fields:
            _fail(spec, f"no argument's dim and no integer is named {name}, so a call cannot choose its variant")


def _expressions(spec: Spec) -> list[tuple[str, Expr]]:
    return [
        *((f"{f.name}'s dims", dim) for f in spec.tensors for dim in f.dims),
        *((f"dims[{name!r}]", expr) for name, expr in spec.derived),
        *(("grid", expr) for expr in spec.grid),
        *(("block", expr) for expr in spec.block),
        *(("shared_memory", expr) for expr in (spec.shared_memory,) if expr is not None),
        *(("constraints", expr) for expr in spec.constraints),
    ]


def _check_launch(spec: Spec) -> None:
    if not spec.entry.strip():
        _fail(spec, "entry is empty; expected the name of a __global__ function")
    if spec.args and spec.struct:
        _fail(spec, "args=True takes plain arguments, struct= a globals struct; give one of them")
    if not spec.host and spec.struct is None:
        for what, value in (("grid", spec.grid), ("block", spec.block)):
            if not value:
                _fail(spec, f"{what} is missing; only a source's own struct may say it instead")
    if spec.host and (spec.grid or spec.block or spec.shared_memory):
        _fail(spec, "a host function launches by itself: grid, block and shared_memory do not apply")
