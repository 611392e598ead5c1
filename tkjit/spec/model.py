"""The frozen values that a spec is made of."""

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
        return "MISSING"  # there is one


MISSING = _Missing()


@dataclass(frozen=True)
class Source:
    """A kernel's source: a file, or its text where it was written in a notebook.

    Parameters
    ----------
    library : str
        The header library that the file belongs to; ``path`` is then relative to its root, until that is found.
    """

    path: Path | None = None
    text: str | None = None
    library: str = ""

    @property
    def name(self) -> str:
        """What error messages and ``#line`` call it."""
        return self.path.name if self.path else "inline.cu"

    @property
    def place(self) -> str:
        """Where it is, for a person: a path, ``<thunderkittens>/kernels/...``, or ``inline.cu``."""
        return f"<{self.library}>/{self.path}" if self.library else str(self.path or self.name)

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
        ``"scalar"`` is a number; the others are tensors. Scratch is allocated for the call, and never returned.
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
    value_type : ValueType or None
        The type of a value that is no number: a string, a dtype, a device, a container.
    is_parallel : bool
        Whether it is a parallel global layout: a tensor on each of several devices.
    is_strided : bool
        Whether it is a strided layout, which a tensor with any strides fills.
    fill : float or None
        What each element of an output, or of scratch, is before the kernel runs; None for what nobody has written.
    draws : Expr or None
        How many random numbers a thread takes; None for what is no generator.
    member : str
        The struct's member that it fills, ``x.real``, where that is not of its own name.
    max_length : int
        How many items a list of tensors, or of values in a kernel's struct, has at most; 0 for what is no list.
    has_optional_items : bool
        Whether tensors of a list may be None, all but one.
    is_constant : bool
        Whether it is copied into a variable of the source before each launch, and is no argument of the kernel.
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
        """Whether it is a tensor, or a list of them."""
        return self.direction != "scalar"

    @property
    def is_list(self) -> bool:
        """Whether it is a list of tensors."""
        return self.is_tensor and self.max_length > 0

    @property
    def is_input(self) -> bool:
        """Whether it is a tensor that a call brings."""
        return self.direction in ("in", "inout")

    @property
    def is_allocated(self) -> bool:
        """Whether it is a tensor that a call makes, unless it is an output that is given."""
        return self.direction in ("out", "scratch")

    @property
    def is_written(self) -> bool:
        """Whether the caller sees what the kernel writes there."""
        return self.direction in ("inout", "out")

    @property
    def is_required(self) -> bool:
        """Whether a call has to give it, if only as None."""
        return self.default is MISSING and not self.is_allocated

    @property
    def is_integer(self) -> bool:
        """Whether expressions may use it."""
        return self.direction == "scalar" and self.value_type is None and SCALAR_TYPES.get(self.dtype) is not None


@dataclass(frozen=True)
class Backward:
    """What computes a kernel's gradients.

    Parameters
    ----------
    kernel : str
        The name of a kernel; empty where it is a function.
    parameters : tuple of str
        What a function takes, by name: fields of the forward call, and ``grad_NAME`` for each output's gradient.
    function : callable or None
        It returns the gradients of the differentiable inputs, in their order.
    """

    kernel: str = ""
    parameters: tuple[str, ...] = ()
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Parameters:
    """What a kernel takes and returns.

    Parameters
    ----------
    fields : tuple of Field
        In the order of the kernel's parameters.
    order : tuple of str
        The fields' names in the order of the struct, those that are computed among them. A parameter that is a variant
        may be missing: it is a template argument and no member.
    returns : tuple of str
        The fields that a call returns.
    result : str
        The type of the number that a host function returns: ``"float"``, ``"int"``, ``"bool"``; empty for none.
    variants : tuple of (str, tuple)
        Each template parameter with its dtype names, integers or bools.
    derived : tuple of (str, Expr)
        Dims computed from others.
    constraints : tuple of Expr
        What must hold of a call.
    struct : str or None
        The source's own struct; ``"auto"`` for the type of the entry's first parameter; None where one is rendered.
    args : bool
        Whether the entry takes plain arguments, and no struct.
    computed : tuple of (str, Expr)
        Integer members of the struct that no call gives.
    behind : tuple of str
        Fields that the entry takes as arguments of their own, behind the struct.
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
    behind: tuple[str, ...] = ()
    result: str = ""


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched.

    Parameters
    ----------
    entry : str
        The ``__global__`` function, with template arguments: ``"axpy<T>"``; a host function where ``host``.
    host : bool
        Whether the entry is a host function, which launches by itself.
    grid, block : tuple of Expr, or CExpr
        Up to three extents; empty where the source says them.
    shared_memory : Expr, CExpr or None
        Dynamic shared memory, in bytes.
    cooperative : bool
        Whether all blocks run at once, and may wait for each other.
    cluster : tuple of int
        How many blocks are a cluster, by axis; empty where the source says it.
    pdl : bool
        Whether a launch may begin before the one before it in the stream has ended (programmatic dependent launch).
    config : str or None
        The source's struct of launch constants, for an entry that is a ``__device__`` function.
    num_devices : int
        On how many devices a kernel with parallel layouts runs, where the source fixes it; 0 where the call says it.
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
        """The grid, the block and the shared memory by their names; one that the spec does not say is empty."""
        shared = self.shared_memory
        return (
            ("grid", self.grid),
            ("block", self.block),
            ("shared_memory", (shared,) if isinstance(shared, Expr) else shared or ()),
        )


@dataclass(frozen=True)
class Compilation:
    """What a kernel is compiled from, and how.

    Parameters
    ----------
    sources : tuple of (str, Source)
        By architecture (``"90a"``, ``"cpu"``); ``""`` serves every one that has none of its own.
    headers : tuple of HeaderLibrary
        What the source is written on.
    symbols : tuple of str
        The ``__constant__`` and ``__device__`` variables that ``Kernel.symbol`` shows.
    forbid_spills : bool
        Whether a build for a GPU that spills registers to local memory fails.
    compiler : str
        ``"nvcc"`` or ``"nvrtc"`` for GPUs; empty where the source decides.
    """

    sources: tuple[tuple[str, Source], ...]
    headers: tuple[HeaderLibrary, ...] = ()
    std: str = "c++20"
    flags: tuple[str, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()
    include_dirs: tuple[Path, ...] = ()
    libraries: tuple[str, ...] = ()
    forbid_spills: bool = False
    compiler: str = ""
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verification:
    """With what ``verify`` and ``check`` call a kernel, where random numbers of any size are not enough.

    Parameters
    ----------
    examples : tuple of mapping
        Extents of dims, numbers and variants, a call each; empty where the dims and constraints say enough.
    zeroed : tuple of str
        Inputs that begin as zeros: signals between blocks or devices.
    prepare : callable or None
        It takes a call's arguments by name; it changes them in place, or returns those that have to be others.
    tolerance : float
        The largest error of a result's row, as a part of the row; 0 for that of the dtypes.
    unchecked : tuple of str
        In-place parameters that are not compared: what a kernel leaves behind for another.
    """

    examples: tuple[Mapping[str, Any], ...] = ()
    prepare: Callable[[dict[str, Any]], Mapping[str, Any] | None] | None = None
    tolerance: float = 0.0
    unchecked: tuple[str, ...] = ()
    zeroed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operator:
    """What Python and PyTorch know of a kernel.

    Parameters
    ----------
    module : str
        The Python module that defines the kernel.
    reference : callable or None
        The function's own body.
    backward : Backward or None
        What computes the gradients.
    deprecated : str
        What to use instead; a call of the overload then warns.
    autocast : str or None
        What ``torch.autocast`` does to the floating-point inputs: ``"lower"`` casts them to its dtype, ``"float32"`` to
        that; None leaves them.
    verification : Verification
        With what it is verified.
    """

    doc: str = ""
    backward: Backward | None = None
    deprecated: str = ""
    autocast: str | None = None
    module: str = field(default="", compare=False, repr=False)
    reference: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    verification: Verification = field(default=Verification(), compare=False, repr=False)
