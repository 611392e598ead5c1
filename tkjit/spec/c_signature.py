"""The parameters of a spec's C functions, through which every other language calls the kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from tkjit.errors import SpecError
from tkjit.spec.dim_order import derived_in_order
from tkjit.spec.model import MISSING, Field
from tkjit.spec.spec import Spec


class Kind(Enum):
    """The kind of a parameter."""

    TENSOR = "tensor"
    OUTPUT = "output"
    TENSORS = "tensors"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    STR = "str"
    DTYPE = "dtype"
    DEVICE = "device"
    INTS = "ints"
    FLOATS = "floats"
    BOOLS = "bools"
    STRS = "strs"
    SEED = "seed"


# Keywords of C, keywords of C++ (C++ programs include the header too), and names that the functions use themselves.
_TAKEN = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const "
    "const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export "
    "extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq "
    "nullptr operator or or_eq private protected public register reinterpret_cast restrict return short "
    "signed sizeof static static_assert static_cast struct switch template this throw true try typedef "
    "typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq call result "
    "stream leading_ndim leading_sizes targets".split()
)


def identifier(name: str) -> str:
    """Return a name as the C functions spell it: with a trailing underscore if the name is reserved."""
    return f"{name}_" if name in _TAKEN else name


_NUMBERS = (Kind.INT, Kind.FLOAT, Kind.BOOL)
_BY_CODE = {
    "i": Kind.INT,
    "f": Kind.FLOAT,
    "b": Kind.BOOL,
    "s": Kind.STR,
    "t": Kind.DTYPE,
    "d": Kind.DEVICE,
    "g": Kind.SEED,
    "Li": Kind.INTS,
    "Lj": Kind.INTS,
    "Lf": Kind.FLOATS,
    "Lb": Kind.BOOLS,
    "Ls": Kind.STRS,
}


@dataclass(frozen=True)
class CParameter:
    """A parameter of a C function.

    Parameters
    ----------
    field : Field
        The field whose value the parameter passes.
    kind : Kind
    """

    field: Field
    kind: Kind

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def identifier(self) -> str:
        return identifier(self.field.name)

    @property
    def is_optional(self) -> bool:
        """Whether a caller may pass null to omit the argument."""
        nullable = (Kind.TENSOR, *_NUMBERS, Kind.STR, Kind.INTS, Kind.FLOATS, Kind.BOOLS, Kind.STRS)
        return self.field.optional and self.kind in nullable

    @property
    def is_number(self) -> bool:
        return self.kind in _NUMBERS

    @property
    def has_default(self) -> bool:
        """Whether the parameter has a default other than None."""
        return self.field.default not in (MISSING, None)


@dataclass(frozen=True)
class CSignature:
    """The C functions of one overload.

    Parameters
    ----------
    name : str
        The kernel's name as an identifier; later overloads append their number: ``gemm``, ``gemm_overload1``.
    parameters : tuple of CParameter
        The parameters, in the order of the spec's fields and without scratch.
    """

    spec: Spec
    name: str
    parameters: tuple[CParameter, ...]

    @property
    def result(self) -> Kind | None:
        """The kind of number that a host function returns, or None."""
        return Kind(self.spec.result) if self.spec.result else None

    @property
    def outputs(self) -> tuple[CParameter, ...]:
        return tuple(p for p in self.parameters if p.kind is Kind.OUTPUT)

    @property
    def leading(self) -> bool:
        """Whether a tensor accepts any number of leading dims."""
        return any(f.leading for f in self.spec.tensors)

    @property
    def extents(self) -> tuple[str, ...]:
        """The dims that a call with plain pointers must pass in addition, because no parameter holds them."""
        given = {p.name for p in self.parameters}
        return tuple(name for name in self.spec.dim_names if name not in given)

    @property
    def types(self) -> tuple[str, ...]:
        """The type variants that a call with plain pointers must pass."""
        given = {p.name for p in self.parameters}
        return tuple(name for name in self.spec.type_variants if name not in given)

    @property
    def place(self) -> str:
        """The name of the parameter for the device of the plain pointers."""
        if self.spec.device_field is not None:
            return identifier(self.spec.device_field.name)
        return "on" if any(p.name == "device" for p in self.parameters) else "device"

    @property
    def takes_pointers(self) -> bool:
        """Whether there is a function that takes plain pointers.

        It needs tensors, none of them in a list, and each extent must follow from dims and integer parameters.
        """
        known = {*self.extents, *(p.name for p in self.parameters if p.kind is Kind.INT)}
        dims = [dim for f in self.spec.tensors if f.direction != "scratch" for dim in f.dims]
        derived = derived_in_order(self.spec, dims)
        needed = {name for expr in [*dims, *(expr for _, expr in derived)] for name in expr.names}
        needed -= {name for name, _ in derived}
        has_lists = any(p.kind is Kind.TENSORS for p in self.parameters)
        has_tensors = any(p.kind in (Kind.TENSOR, Kind.OUTPUT) for p in self.parameters)
        return has_tensors and not has_lists and needed <= known


def c_signature(spec: Spec, overload: int = 0) -> CSignature:
    """Describe the C functions of a spec.

    Raises
    ------
    SpecError
        If C has no type for a parameter, or no function for the kernel.

    Examples
    --------
    >>> import tkjit
    >>> [(p.name, p.kind.value) for p in c_signature(tkjit.find("softmax").specs[0]).parameters]
    [('x', 'tensor'), ('y', 'output')]
    """
    if spec.is_parallel:
        raise SpecError(
            f"{spec.name} cannot be exported: it runs on several devices at once, which only Python's Club can launch"
        )
    name = re.sub(r"\W", "_", spec.name)
    parameters = tuple(CParameter(f, _kind(spec, f)) for f in spec.given)
    return CSignature(spec, f"{name}_overload{overload}" if overload else name, parameters)


def _kind(spec: Spec, f: Field) -> Kind:
    if f.is_tensor:
        return Kind.TENSORS if f.is_list else Kind.OUTPUT if f.direction == "out" else Kind.TENSOR
    if f.value_type is None:
        return Kind.INT if f.is_integer else Kind.BOOL if f.dtype == "bool" else Kind.FLOAT
    kind = _BY_CODE.get(f.value_type.code)
    if kind is None:
        raise SpecError(f"{spec.name} cannot be exported: C has no type for {f.name}: {f.value_type.text}")
    return kind
