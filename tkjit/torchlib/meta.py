"""Computes output shapes for meta and fake tensors from the spec's dims, and checks the arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from tkjit.errors import ArgumentError, ShapeError, TkjitError
from tkjit.spec import Field, Spec
from tkjit.spec.checks import stride_names
from tkjit.spec.dim_order import derived_in_order
from tkjit.spec.expr import EXTENTS, Expr
from tkjit.spec.schema import operator_fields
from tkjit.spec.signature import join_options
from tkjit.torchlib.describe import describe


def meta_outputs(
    spec: Spec, arguments: Mapping[str, Any], known: Mapping[str, int] | None = None, device: str = "cpu"
) -> tuple[torch.Tensor, ...]:
    """Allocate a call's outputs, as tensors of the kind that is being traced.

    Sizes may be symbols; a check on a symbol becomes a guard.

    Parameters
    ----------
    known : mapping, optional
        Other values that expressions may use, such as the number of devices of a call over several devices.
    device : str
        The device of the outputs if no input is a tensor.

    Raises
    ------
    ArgumentError
        If a dtype or a device does not match the spec.
    ShapeError
        If extents contradict each other or a constraint.
    """
    return _Call(spec, arguments, known or {}, device).outputs()


def fake_operator(spec: Spec, *, out: bool) -> Callable[..., Any]:
    """Implement a spec's operator for fake tensors; ``out`` selects the one that writes to the caller's outputs."""
    fields = operator_fields(spec, out=out)

    def fake(*arguments: Any, **named: Any) -> Any:
        given = {**dict(zip((f.name for f in fields), arguments, strict=False)), **named}
        made = meta_outputs(spec, {**{f.name: f.default for f in fields}, **given})
        return None if out or not made else made if len(made) > 1 else made[0]

    return fake


def scratch_of(
    spec: Spec, arguments: Mapping[str, Any], known: Mapping[str, int] | None = None, device: str = "cpu"
) -> dict[str, torch.Tensor]:
    """Allocate the scratch tensors of a call, by name.

    Raises
    ------
    ArgumentError, ShapeError
        For the same reasons as ``meta_outputs``.
    """
    call = _Call(spec, arguments, known or {}, device)
    call.outputs()
    call.derive(dim for f in spec.scratch for dim in f.dims)
    return {f.name: call.empty(f) for f in spec.scratch}


def numbers_drawn(spec: Spec, field: Field, arguments: Mapping[str, Any]) -> tuple[torch.device, int]:
    """Return a call's device, and how many random numbers each of its threads draws.

    Raises
    ------
    ArgumentError, ShapeError
        For the same reasons as ``meta_outputs``.
    """
    call = _Call(spec, arguments, {})
    call.outputs()
    assert field.draws is not None
    call.derive([field.draws])
    return call.device, field.draws.evaluate(call.values)


class _Call:
    def __init__(self, spec: Spec, arguments: Mapping[str, Any], known: Mapping[str, int], device: str = "cpu") -> None:
        self.device = torch.device(device)
        self.spec = spec
        self.arguments = arguments
        self.values: dict[str, Any] = {**known, **{f.name: arguments[f.name] for f in spec.fields if f.is_integer}}
        self.leading: tuple[Any, ...] | None = None
        self.chosen: dict[str, torch.dtype] = {}  # the dtype of each type variant
        for f in spec.dtype_fields:
            name = str(arguments[f.name]).removeprefix("torch.")
            if name not in spec.type_variants[f.name]:
                options = join_options(spec.type_variants[f.name])
                raise ArgumentError(f"{spec.name}: {f.name} is {arguments[f.name]}; expected {options}")
            self.chosen[f.name] = getattr(torch, name)

    def outputs(self) -> tuple[torch.Tensor, ...]:
        spec = self.spec
        given = [f for f in spec.inputs if self.arguments[f.name] is not None]
        self.first = ""
        if given:
            self.device, self.first = self._tensors(given[0])[0].device, given[0].name
        for f in given:
            for tensor in self._tensors(f):
                self._input(f, tensor)
        # without the sizes of scratch, whose comparisons would become guards of a traced call
        tensors = [f for f in spec.tensors if f not in spec.scratch]
        self.derive([*(dim for f in tensors for dim in f.dims), *spec.constraints])
        for f in given:
            for tensor in self._tensors(f):
                self._computed_dims(f, tensor)
        for expr in spec.constraints:
            failure = ShapeError(f"{spec.name}: the constraint {expr} does not hold")
            self._require(expr.evaluate(self.values), lambda failure=failure: failure)  # type: ignore[misc]
        return tuple(made for f in spec.outputs for made in self._output(f))

    def derive(self, exprs: Iterable[Expr]) -> None:
        """Compute the computed dims that some expressions use."""
        for name, expr in derived_in_order(self.spec, exprs):
            self.values[name] = expr.evaluate(self.values)

    def _tensors(self, f: Field) -> list[torch.Tensor]:
        """Return the tensors of a field: a single one, or all tensors in its list."""
        given = self.arguments[f.name]
        return [tensor for tensor in given if tensor is not None] if f.is_list else [given]

    def _computed_dims(self, f: Field, tensor: torch.Tensor) -> None:
        for dim, size in zip(f.dims, self._own_sizes(f, tensor), strict=True):
            if dim.names and dim.text not in self.values:
                self._require(dim.evaluate(self.values) == size, lambda: self._mismatch(f, tensor))

    def empty(self, f: Field) -> torch.Tensor:
        """Allocate the tensor of a field."""
        return torch.empty(self._shape(f), dtype=self._dtype(f), device=self.device)

    def _shape(self, f: Field) -> tuple[Any, ...]:
        leading = self.leading or () if f.leading else ()
        return (*leading, *(dim.evaluate(self.values) for dim in f.dims))

    def _output(self, f: Field) -> list[torch.Tensor]:
        """Allocate an output, or only check it if the call passes one."""
        shape, given = self._shape(f), self.arguments.get(f.name)
        if given is None:
            return [self.empty(f)]
        self._require_device(f, given)
        self._require_kind(given.dtype == self._dtype(f), f, given, ArgumentError)
        self._require_kind(given.dim() == len(shape), f, given)
        for size, expected in zip(given.shape, shape, strict=True):
            self._require(size == expected, lambda: self._mismatch(f, given))
        return []

    def _input(self, f: Field, tensor: torch.Tensor) -> None:
        self._require_device(f, tensor)
        allowed = [getattr(torch, name) for name in self.spec.dtypes_of(f)]
        if f.dtype in self.spec.type_variants:
            allowed = [self.chosen.setdefault(f.dtype, tensor.dtype)] if tensor.dtype in allowed else []
        self._require_kind(tensor.dtype in allowed, f, tensor, ArgumentError)
        missing = tensor.dim() - len(f.dims)
        self._require_kind(missing == 0 or (f.leading and 0 < missing <= 4 - len(f.dims)), f, tensor)
        if f.leading:
            self._leading(f, tensor, tuple(tensor.shape[:missing]))
        for dim, size in zip(f.dims, self._own_sizes(f, tensor), strict=True):
            if not dim.names:
                self._require(size == dim.evaluate({}), lambda: self._mismatch(f, tensor))
            elif dim.is_name and (dim.text in self.values or dim.text in self.spec.dim_names):
                known = self.values.setdefault(dim.text, size)
                self._require(known == size, lambda: self._mismatch(f, tensor))
        padded = (*(1,) * (4 - tensor.dim()), *tensor.shape)[-4:]
        self.values |= {f"{f.name}.{name}": size for name, size in zip(EXTENTS, padded, strict=False)}
        self.values[f"{f.name}.numel"] = tensor.numel()
        for name in stride_names(f):
            self.values[name] = tensor.stride(int(name.rpartition("(")[2].rstrip(")")))

    def _leading(self, f: Field, tensor: torch.Tensor, sizes: tuple[Any, ...]) -> None:
        if self.leading is None:
            self.leading = sizes
        self._require_kind(len(sizes) == len(self.leading), f, tensor)
        for size, other in zip(sizes, self.leading, strict=True):
            self._require(size == other, lambda: self._mismatch(f, tensor))

    @staticmethod
    def _own_sizes(f: Field, tensor: torch.Tensor) -> tuple[Any, ...]:
        return tuple(tensor.shape[tensor.dim() - len(f.dims) :])

    def _dtype(self, f: Field) -> torch.dtype:
        found: torch.dtype = self.chosen.get(f.dtype) or getattr(torch, f.dtype)
        return found

    def _require(self, holds: Any, error: Callable[[], TkjitError]) -> None:
        """Raise an error unless a condition holds. A symbolic condition becomes a guard, or a check at run time."""
        if isinstance(holds, (bool, int)):
            if not holds:
                raise error()
        else:
            torch._check(holds, lambda: str(error()))  # type: ignore[no-untyped-call]

    def _require_kind(self, holds: bool, f: Field, tensor: torch.Tensor, kind: type[TkjitError] = ShapeError) -> None:
        if not holds:
            raise self._mismatch(f, tensor, kind)

    def _require_device(self, f: Field, tensor: torch.Tensor) -> None:
        if tensor.device != self.device:
            expected = f"{self.device}, where {self.first} is" if self.first else str(self.device)
            moved = f'{f.name} = {f.name}.to("{self.device}") moves it'
            remedy = "a meta tensor holds no data" if tensor.is_meta else moved
            raise ArgumentError(f"{self.spec.name}: {f.name} is {describe(tensor)}; expected {expected}; {remedy}")

    def _mismatch(self, f: Field, tensor: torch.Tensor, kind: type[TkjitError] = ShapeError) -> TkjitError:
        leading = ["..."] if self.leading is None else [str(size) for size in self.leading]
        dims = [*(leading if f.leading else []), *(self._dim_text(dim) for dim in f.dims)]
        dtypes = (
            [str(self.chosen[f.dtype]).removeprefix("torch.")] if f.dtype in self.chosen else self.spec.dtypes_of(f)
        )
        comma = "," if len(dims) == 1 and dims != ["..."] else ""
        expected = f"({', '.join(dims)}{comma}) {join_options(dtypes)} on {self.device}"
        return kind(f"{self.spec.name}: {f.name} is {describe(tensor)}; expected {expected}")

    def _dim_text(self, dim: Expr) -> str:
        value = self.values.get(dim.text)
        return dim.text if value is None or not dim.names else f"{dim}={value}"
