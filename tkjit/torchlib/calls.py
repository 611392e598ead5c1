"""A kernel's call as a call of its operator, in Python that ``torch.compile`` can trace."""

from __future__ import annotations

import operator
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tkjit.errors import ArgumentError, ShapeError
from tkjit.render.text import listed, signature_text
from tkjit.spec import SCALAR_TYPES, Field, Spec
from tkjit.spec.model import MISSING
from tkjit.spec.schema import operator_fields, operator_name


class OverloadCall:
    """One overload's call: binds its arguments and calls its operator. All it needs is put into tuples beforehand."""

    def __init__(self, spec: Spec, overload: int) -> None:
        inputs = operator_fields(spec)
        self.kernel = spec.name
        self.signature = signature_text(spec)
        self.positional = tuple(f.name for f in spec.fields if not f.keyword_only)
        self.inputs = tuple(f.name for f in inputs)
        self.outputs = tuple(f.name for f in spec.fields if f.direction == "out")
        self.required = tuple(f.name for f in inputs if f.is_required)
        self.defaults = {f.name: None if f.default is MISSING else f.default for f in inputs}
        self.tensors = tuple((f.name, len(f.dims), f.leading, f.optional) for f in inputs if f.is_tensor)
        self.lists = tuple(f.name for f in inputs if f.is_list)
        self.dtypes = {f.name: tuple(getattr(torch, name) for name in spec.dtypes_of(f)) for f in inputs if f.is_tensor}
        self.dtype_names = {f.name: listed(spec.dtypes_of(f)) for f in inputs if f.is_tensor}
        self.scalars: tuple[_Value | _Scalar, ...] = tuple(
            _Value(f) if f.value else _Scalar(f) for f in inputs if not f.is_tensor
        )
        self.returns = spec.returns
        self.result_type: Any = namedtuple(f"{spec.name}_result", spec.returns) if len(spec.returns) > 1 else None
        self.operator = operator_name(overload) or "default"
        self.out_operator = operator_name(overload, out=True)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Why this overload does not take a call (empty if it does), and the arguments by name."""
        if len(args) > len(self.positional):
            return f"takes at most {len(self.positional)} positional arguments, got {len(args)}", {}
        given = dict(zip(self.positional, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                return f"the argument {name} is given twice", {}
            if name not in self.inputs and name not in self.outputs and name not in ("out", "stream"):
                return f"unknown argument {name}", {}
            given[name] = value
        if given.get("out") is not None:
            out = given["out"]
            several = len(self.outputs) > 1
            if not self.outputs or (several and (not isinstance(out, tuple) or len(out) != len(self.outputs))):
                return f"out= must be a tuple of {len(self.outputs)} tensors, one for each output", {}
            for name, tensor in zip(self.outputs, out if several else (out,), strict=True):
                if given.get(name) is not None:
                    return f"{name} is given both by name and in out=", {}
                given[name] = tensor
        for name in self.inputs:
            if name not in given:
                if name in self.required:
                    return f"the argument {name} is missing", {}
                given[name] = self.defaults[name]
        return self._misplaced(given), given

    def _misplaced(self, given: dict[str, Any]) -> str:
        """What is no tensor where one is asked for, or no number of the right kind; the numbers are read."""
        for name, _, _, optional in self.tensors:
            value = given[name]
            if name in self.lists:
                if not isinstance(value, (list, tuple)):
                    return f"{name} is {described(value)}; expected a list of tensors"
                for i, item in enumerate(value):
                    if not isinstance(item, torch.Tensor):
                        return _no_tensor(f"{name}[{i}]", item)
                continue
            if not isinstance(value, torch.Tensor) and not (value is None and optional):
                return _no_tensor(name, value)
        for name in self.outputs:
            value = given.get(name)
            if value is not None and not isinstance(value, torch.Tensor):
                return _no_tensor(name, value)
        for scalar in self.scalars:
            value = given[scalar.name]
            if value is None and scalar.optional:
                continue
            read = scalar.read(value)
            expected = scalar.unfit(read)
            if expected:
                return f"{scalar.name} is {described(value)}; expected {expected}"
            given[scalar.name] = read
        return ""

    def unfit(self, given: Mapping[str, Any]) -> str:
        """Why the tensors are another overload's; extents are not looked at, which may be symbols."""
        for name, ndim, leading, _ in self.tensors:
            value = given[name]
            for tensor in value if name in self.lists else () if value is None else (value,):
                if tensor.dtype not in self.dtypes[name]:
                    return f"{name} is {tensor.dtype}; expected {self.dtype_names[name]}"
                if tensor.dim() < ndim or (tensor.dim() > ndim and not leading):
                    return f"{name} has {tensor.dim()} dimensions; expected {ndim}{' or more' if leading else ''}"
        return ""

    def call(self, packet: Any, given: Mapping[str, Any]) -> Any:
        """Call the operator; what a call of the kernel returns."""
        arguments = [given[name] for name in self.inputs]
        outputs: list[Any] = [given.get(name) for name in self.outputs]
        if outputs and all(output is not None for output in outputs):
            getattr(packet, self.out_operator)(*arguments, *outputs)
        else:
            result = getattr(packet, self.operator)(*arguments)
            made = result if len(self.outputs) > 1 else (result,)
            for i in range(len(self.outputs)):
                outputs[i] = made[i] if outputs[i] is None else self._copied(self.outputs[i], made[i], outputs[i])
        values = dict(zip(self.outputs, outputs, strict=True))
        returned = [values[name] if name in values else given[name] for name in self.returns]
        if self.result_type is not None:
            return self.result_type(*returned)
        return returned[0] if returned else None

    def _copied(self, name: str, made: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """Give the value of an output to the one of several that was given."""
        if given.shape != made.shape or given.dtype != made.dtype:
            kind = ShapeError if given.dtype == made.dtype else ArgumentError
            raise kind(f"{self.kernel}: {name} is {described(given)}; expected {described(made)}")
        return given.copy_(made)


class _Scalar:
    """How a number is read: as the glue reads it (``runtime/glue_arguments.h``), in Python that can be traced."""

    def __init__(self, f: Field) -> None:
        bounds = SCALAR_TYPES.get(f.dtype)
        self.name = f.name
        self.optional = f.optional
        self.kind = "int" if bounds else "bool" if f.dtype == "bool" else "float"
        self.bounds = bounds or (0, 0)

    def read(self, value: Any) -> Any:
        """The number; None if it is none of this kind."""
        if isinstance(value, torch.Tensor) and value.dim() == 0:
            value = value.item()
        if self.kind == "bool":
            return bool(value) if isinstance(value, bool) or _type_name(value) in _NUMPY_BOOL else None
        if isinstance(value, (bool, torch.Tensor, str, complex)):
            return float(value) if self.kind == "float" and isinstance(value, bool) else None
        if self.kind == "float":
            return value if isinstance(value, (int, float)) else _converted(float, value)
        return value if isinstance(value, int) else _converted(operator.index, value)

    def unfit(self, value: Any) -> str:
        """What was expected, if a value that was read does not fit."""
        kind = f"{'an' if self.kind == 'int' else 'a'} {self.kind}"
        if value is None:
            return kind
        low, high = self.bounds
        return "" if self.kind != "int" or low <= value <= high else f"{kind} from {low} to {high}"


class _Value:
    """How a value that is no number is read."""

    def __init__(self, f: Field) -> None:
        assert f.value is not None
        self.name = f.name
        self.optional = f.optional
        self.type = f.value

    def read(self, value: Any) -> Any:
        """The value as an operator takes it; None if it is of another type."""
        code = self.type.code
        if code == "t":
            found = getattr(torch, value, None) if isinstance(value, str) else value
            return found if isinstance(found, torch.dtype) else None
        if code == "d":
            return torch.device(value) if isinstance(value, (str, torch.device)) else None
        if code == "s":
            return value if isinstance(value, str) else None
        if not isinstance(value, (list, tuple)):
            return None
        kinds: tuple[type, ...] = {"i": (int,), "j": (int,), "f": (int, float), "b": (bool,), "s": (str,)}[code[1]]
        fitting = [item for item in value if isinstance(item, kinds) and isinstance(item, bool) == (code[1] == "b")]
        return fitting if len(fitting) == len(value) else None

    def unfit(self, value: Any) -> str:
        return self.type.text if value is None else ""


def _no_tensor(name: str, value: Any) -> str:
    return f"{name} is {described(value)}; expected a torch.Tensor"


def _converted(kind: Callable[[Any], Any], value: Any) -> Any:
    try:
        return kind(value)
    except Exception:  # whatever an object of the caller's raises
        return None


def described(value: Any) -> str:
    """``3.0 (float)``, or the tensor, as the runtime's texts have it."""
    if isinstance(value, torch.Tensor):
        shape = f"({', '.join(map(str, value.shape))}{',' if value.dim() == 1 else ''})"
        return f"{shape} {str(value.dtype).removeprefix('torch.')} on {value.device}"
    text = repr(value).replace("\n", " ")
    return f"{text[:60]}{'...' if len(text) > 60 else ''} ({_type_name(value)})"


_NUMPY_BOOL = ("numpy.bool", "numpy.bool_")
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def _type_name(value: Any) -> str:
    """A type as C knows it: with its module where it was not made in Python."""
    kind = type(value)
    plain = kind.__module__ == "builtins" or kind.__flags__ & _HEAP_TYPE
    return kind.__name__ if plain else f"{kind.__module__}.{kind.__qualname__}"


def call_overloads(
    overloads: Sequence[OverloadCall], packet: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call the first overload that takes the arguments.

    Raises
    ------
    ArgumentError
        If none does; with every signature and the reason.
    """
    reasons = []
    for overload in overloads:
        reason, given = overload.bind(args, kwargs)
        if not reason and len(overloads) > 1:
            reason = overload.unfit(given)
        if not reason:
            return overload.call(packet, given)
        reasons.append(reason)
    name = overloads[0].kernel
    if len(reasons) == 1:
        raise ArgumentError(f"{name}: {reasons[0]}")
    lines = [f"\n  {one.signature}\n    {name}: {reason}" for one, reason in zip(overloads, reasons, strict=True)]
    raise ArgumentError(f"{name}: no overload takes these arguments:{''.join(lines)}")
