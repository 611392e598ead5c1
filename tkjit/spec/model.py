"""The frozen values that make up a spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tkjit.errors import SpecError
from tkjit.spec.advice import near_file
from tkjit.spec.annotations import CExpr
from tkjit.spec.dtypes import SCALAR_TYPES
from tkjit.spec.expr import Expr
from tkjit.spec.headers import HeaderLibrary
from tkjit.spec.values import ValueType


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"  # unpickles as the one instance


MISSING = _Missing()


@dataclass(frozen=True)
class Source:
    """A kernel's source: a file, or the source text itself.

    Parameters
    ----------
    library : str
        The header library that contains the file. ``path`` is relative to the library's root until the root is found.
    """

    path: Path | None = None
    text: str | None = None
    library: str = ""

    @property
    def name(self) -> str:
        """The source's name in error messages and ``#line`` directives."""
        return self.path.name if self.path else "inline.cu"

    @property
    def place(self) -> str:
        """The source's location as shown to users: a path, ``<thunderkittens>/kernels/...`` or ``inline.cu``."""
        return f"<{self.library}>/{self.path}" if self.library else str(self.path or self.name)

    def read(self) -> str:
        """Return the source text.

        Raises
        ------
        SpecError
            If the file cannot be read.
        """
        if self.path is None:
            return self.text or ""
        try:
            return self.path.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte-order mark
        except OSError as error:
            near = near_file(self.path) if isinstance(error, FileNotFoundError) else ""
            raise SpecError(f"cannot read the source {self.path}: {error.strerror}{near}") from None
        except UnicodeDecodeError as error:
            raise SpecError(f"cannot read the source {self.path}: {error}") from None


@dataclass(frozen=True)
class Field:
    """One parameter of the kernel and one member of its globals struct.

    Parameters
    ----------
    direction : {"in", "inout", "out", "scratch", "scalar"}
        ``"scalar"`` is a number or another value; the others are tensors. Scratch is allocated for the call and never
        returned.
    dtype : str
        For a tensor, its dtype or the variant that determines the dtype; for a scalar, its C++ type.
    dims : tuple of Expr
        The tensor's dims, leftmost first.
    leading : bool
        Whether any number of further dims may precede ``dims`` (``"... N"``).
    default : object
        The value of an omitted argument; ``MISSING`` if there is none.
    align_bytes : int
        The pointer's required alignment; 0 for the dtype's natural alignment.
    cpp_type : str or None
        The struct member's C++ type; None for ``tkjit::gl``.
    value_type : ValueType or None
        The type of a value other than a number: a string, a dtype, a device, a container, a struct.
    is_parallel : bool
        Whether the field is a parallel global layout: one tensor on each of several devices.
    is_strided : bool
        Whether the field is a strided layout, which accepts a tensor with any strides.
    fill : float or None
        The value that fills an output or scratch before the kernel runs; None leaves the memory uninitialised.
    draws : Expr or None
        The most random numbers that a thread may draw; None if the field is not a generator.
    member : str
        The struct member that the field fills, such as ``x.real``; empty if the member has the field's name.
    max_length : int
        The maximum length of a list (of tensors, or of values in a kernel's struct); 0 if the field is not a list.
    has_optional_items : bool
        Whether tensors in a list may be None. At least one must not be.
    is_constant : bool
        Whether the tensor is copied into a variable of the source before each launch, not passed to the kernel.
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
    value_type: ValueType | None = None
    max_length: int = 0
    member: str = ""
    is_parallel: bool = False
    is_strided: bool = False
    fill: float | None = None
    draws: Expr | None = None
    has_optional_items: bool = False
    is_constant: bool = False

    @property
    def is_tensor(self) -> bool:
        """Whether the field is a tensor or a list of tensors."""
        return self.direction != "scalar"

    @property
    def is_list(self) -> bool:
        """Whether the field is a list of tensors."""
        return self.is_tensor and self.max_length > 0

    @property
    def is_input(self) -> bool:
        """Whether the field is a tensor that the caller passes in."""
        return self.direction in ("in", "inout")

    @property
    def is_allocated(self) -> bool:
        """Whether the call allocates the tensor: scratch always, an output unless the caller passes one."""
        return self.direction in ("out", "scratch")

    @property
    def is_written(self) -> bool:
        """Whether the kernel writes the tensor, and the caller sees the result."""
        return self.direction in ("inout", "out")

    @property
    def is_required(self) -> bool:
        """Whether a call must pass the argument, even if only as None."""
        return self.default is MISSING and not self.is_allocated

    @property
    def is_integer(self) -> bool:
        """Whether the field is an integer, so that expressions may use it."""
        return self.direction == "scalar" and self.value_type is None and SCALAR_TYPES.get(self.dtype) is not None


@dataclass(frozen=True)
class Backward:
    """The kernel or function that computes a kernel's gradients.

    Parameters
    ----------
    kernel : str
        The name of a kernel; empty for a function in Python.
    parameters : tuple of str
        The function's parameters: fields of the forward call, and ``grad_NAME`` for each output's gradient.
    function : callable or None
        Returns the gradients of the differentiable inputs, in order; the kernel, if it was given as an object.
    """

    kernel: str = ""
    parameters: tuple[str, ...] = ()
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Parameters:
    """The parameters and results of a kernel.

    Parameters
    ----------
    fields : tuple of Field
        The fields, in the order of the kernel's parameters.
    order : tuple of str
        The names of the fields and computed integers, in the order of the struct. A parameter that chooses a variant
        may be missing, and is then only a template argument.
    returns : tuple of str
        The fields that a call returns.
    result : str
        The type of the number that a host function returns: ``"float"``, ``"int"`` or ``"bool"``; otherwise empty.
    variants : tuple of (str, tuple)
        Each template parameter with its options: dtype names, integers, bools, or names in the source.
    derived : tuple of (str, Expr)
        Dims computed from other dims.
    constraints : tuple of Expr
        Conditions that every call must meet.
    tuning : tuple of (str, tuple of int)
        Each compile-time constant that ``tune`` chooses, with its options; the first ones are the default.
    tuning_constraints : tuple of Expr
        Conditions that every configuration must meet.
    struct : str or None
        The source's own struct; ``"auto"`` for the type of the entry's first parameter; None if tkjit renders one.
    args : bool
        Whether the entry takes plain arguments instead of a struct.
    computed : tuple of (str, Expr)
        Integer members of the struct that tkjit computes instead of taking them from the call.
    trailing : tuple of str
        Fields that the entry takes as separate arguments after the struct.
    """

    fields: tuple[Field, ...]
    order: tuple[str, ...]
    returns: tuple[str, ...] = ()
    variants: tuple[tuple[str, tuple[str | int, ...]], ...] = ()
    derived: tuple[tuple[str, Expr], ...] = ()
    constraints: tuple[Expr, ...] = ()
    struct: str | None = None
    args: bool = False
    computed: tuple[tuple[str, Expr], ...] = ()
    trailing: tuple[str, ...] = ()
    result: str = ""
    tuning: tuple[tuple[str, tuple[int, ...]], ...] = ()
    tuning_constraints: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Launch:
    """The launch configuration of a kernel.

    Parameters
    ----------
    entry : str
        The ``__global__`` function with its template arguments, ``"axpy<T>"``, or a host function if ``host`` is set.
    host : bool
        Whether the entry is a host function, which does its own launches.
    grid, block : tuple of Expr, or CExpr
        Up to three extents; empty if the source provides them.
    shared_memory : Expr, CExpr or None
        Dynamic shared memory, in bytes.
    cooperative : bool
        Whether all blocks run at once, so that they can wait for each other.
    cluster : tuple of int
        The number of blocks per cluster along each axis; empty if the source sets it.
    pdl : bool
        Whether a launch may start before the previous kernel in the stream has finished (programmatic dependent
        launch).
    config : str or None
        The source's struct of launch constants, for an entry that is a ``__device__`` function.
    num_devices : int
        For a kernel with parallel layouts, the number of devices if the source fixes it; 0 if the call determines it.
    """

    entry: str
    host: bool = False
    grid: tuple[Expr, ...] | CExpr = ()
    block: tuple[Expr, ...] | CExpr = ()
    shared_memory: Expr | CExpr | None = None
    cooperative: bool = False
    cluster: tuple[int, ...] = ()
    pdl: bool = False
    config: str | None = None
    num_devices: int = 0

    @property
    def shape(self) -> tuple[tuple[str, tuple[Expr, ...] | CExpr], ...]:
        """The grid, block and shared memory, each with its name; values that the spec does not set are empty."""
        shared = self.shared_memory
        return (
            ("grid", self.grid),
            ("block", self.block),
            ("shared_memory", (shared,) if isinstance(shared, Expr) else shared or ()),
        )


@dataclass(frozen=True)
class Compilation:
    """The sources and compiler options of a kernel.

    Parameters
    ----------
    sources : tuple of (str, Source)
        The source for each architecture (``"90a"``, ``"cpu"``); ``""`` is used for all other architectures.
    headers : tuple of HeaderLibrary
        The header libraries that the source uses.
    symbols : tuple of str
        The ``__constant__`` and ``__device__`` variables that ``Kernel.symbol`` can return.
    compiler : str
        ``"nvcc"`` or ``"nvrtc"`` for GPUs; if empty, tkjit chooses one.
    """

    sources: tuple[tuple[str, Source], ...]
    headers: tuple[HeaderLibrary, ...] = ()
    std: str = "c++20"
    flags: tuple[str, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()
    include_dirs: tuple[Path, ...] = ()
    libraries: tuple[str, ...] = ()
    compiler: str = ""
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verification:
    """How ``verify`` and ``check`` call a kernel when random inputs with generated sizes are not enough.

    Parameters
    ----------
    examples : tuple of mapping
        One mapping per call, with values for dims, numbers and variants, and None for optional parameters to omit. If
        empty, tkjit generates them.
    zeroed : tuple of str
        Inputs that start as zeros, such as signals between blocks or devices.
    prepare : callable or None
        Takes the arguments of a call by name, and either changes them in place or returns replacements.
    tolerance : float
        The largest allowed error in a row of a result, relative to that row; 0 for the dtype's default.
    unchecked : tuple of str
        In-place parameters that are not compared, such as values that a kernel leaves for the next launch.
    """

    examples: tuple[Mapping[str, Any], ...] = ()
    prepare: Callable[[dict[str, Any]], Mapping[str, Any] | None] | None = None
    tolerance: float = 0.0
    unchecked: tuple[str, ...] = ()
    zeroed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Benchmark:
    """How ``bench`` measures a kernel.

    Parameters
    ----------
    flops : Expr or None
        The floating-point operations of a call; None for a kernel whose speed is given in bytes.
    sizes : tuple of mapping
        One mapping per call, with values for dims, numbers and variants.
    peers : tuple of (str, callable)
        Other implementations, by name. Their parameters are fields of the kernel.
    """

    flops: Expr | None = None
    sizes: tuple[Mapping[str, int | float | str], ...] = ()
    peers: tuple[tuple[str, Callable[..., Any]], ...] = ()


@dataclass(frozen=True)
class Operator:
    """The properties of a kernel that concern Python and PyTorch.

    Parameters
    ----------
    module : str
        The Python module that defines the kernel.
    reference : callable or None
        The body of the decorated function, which serves as the reference implementation.
    backward : Backward or None
        The kernel or function that computes the gradients.
    deprecated : str
        The replacement that the deprecation warning recommends; empty if the overload is not deprecated.
    autocast : str or None
        The effect of ``torch.autocast`` on the floating-point inputs: ``"lower"`` casts them to its dtype,
        ``"float32"`` casts them to float32, and None leaves them unchanged.
    verification : Verification
        The settings for ``verify`` and ``check``.
    benchmark : Benchmark
        The settings for ``bench``.
    """

    doc: str = ""
    backward: Backward | None = None
    deprecated: str = ""
    autocast: str | None = None
    module: str = field(default="", compare=False, repr=False)
    reference: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    verification: Verification = field(default=Verification(), compare=False, repr=False)
    benchmark: Benchmark = field(default=Benchmark(), compare=False, repr=False)
