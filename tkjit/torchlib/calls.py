"""Turns a kernel's call into a call of its operator: binds arguments by name, reads values, wraps arrays."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from tkjit.errors import ArgumentError, TkjitError
from tkjit.spec import SCALAR_TYPES, Field, Spec
from tkjit.spec.model import MISSING
from tkjit.spec.results import result_type
from tkjit.spec.schema import operator_fields
from tkjit.spec.signature import python_type, signature_of, signature_text
from tkjit.torchlib.arrays import Arrays, NegativeStrides, is_proxy
from tkjit.torchlib.describe import describe
from tkjit.torchlib.meta import meta_outputs


class OverloadCall:
    """Calls one overload of a kernel through its operators.

    Parameters
    ----------
    operator : callable
        The operator that allocates the outputs.
    out_operator : callable or None
        The operator that writes to outputs that the caller passes.
    capsule_of : callable
        Returns an array's DLPack capsule.
    """

    def __init__(
        self,
        spec: Spec,
        operator: Callable[..., Any],
        out_operator: Callable[..., Any] | None,
        capsule_of: Callable[[Any], Any],
    ) -> None:
        self.spec = spec
        self.capsule_of = capsule_of
        self.inputs = operator_fields(spec)
        self.positional = tuple(f.name for f in spec.given if not f.keyword_only)
        self.outputs = tuple(f.name for f in spec.outputs)
        # in the order of the glue's parameters
        self.names = tuple(signature_of(spec).parameters)
        self.operator, self.out_operator = operator, out_operator

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call the operator, and return what a direct call of the kernel returns.

        Raises
        ------
        ArgumentError, ShapeError
            If the arguments do not fit this overload.
        """
        arrays = Arrays(self.capsule_of)
        given = self._read(self._bind(args, kwargs), arrays)
        outputs = [given.get(name) for name in self.outputs]
        arguments = [given[f.name] for f in self.inputs]
        if any(output is not None for output in outputs):
            outputs = self._complete(outputs, given)
            assert self.out_operator is not None
            self.out_operator(*arguments, *outputs)
        else:
            result = self.operator(*arguments)
            if self.spec.result:
                return result
            outputs = [*result] if len(self.outputs) > 1 else [result]
        values = {**given, **dict(zip(self.outputs, outputs, strict=False))}
        returned = [arrays.given_back(values[name]) for name in self.spec.returns]
        named = result_type(self.spec.name, self.spec.returns)
        return named(*returned) if named else returned[0] if returned else None

    def _complete(self, outputs: list[Any], given: dict[str, Any]) -> list[Any]:
        """If a call passes only some of the outputs, allocate the others."""
        if all(output is not None for output in outputs):
            return outputs  # the operator checks the outputs, or an output's own __torch_function__ does
        odd = [f.name for f in self.spec.tensors if is_proxy(given.get(f.name))]
        if odd:
            raise self._refuse(
                f"{odd[0]} is {describe(given[odd[0]])}, which stands in for a tensor; pass all outputs with it or none"
            )
        missing = iter(meta_outputs(self.spec, given))
        return [next(missing) if output is None else output for output in outputs]

    def _refuse(self, text: str) -> ArgumentError:
        return ArgumentError(f"{self.spec.name}: {text}")

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.positional):
            others = ", ".join(f"{name}=" for name in self.names[len(self.positional) :])
            few = f"takes at most {len(self.positional)} positional arguments, got {len(args)}"
            raise self._refuse(f"{few}; by name it takes {others}")
        given = dict(zip(self.positional, args, strict=False))
        for name, value in kwargs.items():
            if name in given or name not in self.names:
                near = difflib.get_close_matches(name, self.names, 1)
                meant = f"did you mean {near[0]}? " if near else ""
                unknown = f"unknown argument {name}; {meant}it takes {', '.join(self.names)}"
                raise self._refuse(f"the argument {name} is given twice" if name in given else unknown)
            given[name] = value
        if given.get("out") is not None:
            self._spread(given["out"], given)
        for f in self.inputs:
            if f.name not in given and f.is_required:
                raise self._refuse(f"the argument {f.name} is missing; it takes {', '.join(self.names)}")
            given.setdefault(f.name, None if f.default is MISSING else f.default)
        return given

    def _spread(self, out: Any, given: dict[str, Any]) -> None:
        several = len(self.outputs) > 1
        if several and (not isinstance(out, tuple) or len(out) != len(self.outputs)):
            raise self._refuse(f"out= must be a tuple of {len(self.outputs)} tensors, one for each output")
        for name, tensor in zip(self.outputs, out if several else (out,), strict=True):
            if given.get(name) is not None:
                raise self._refuse(f"{name} is given both by name and in out=")
            given[name] = tensor

    def _read(self, given: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        """Convert a call's arguments to the operator's arguments."""
        # inputs come first, because the first argument decides the framework of the results
        for f in (*self.spec.inputs, *self.spec.outputs):
            if given.get(f.name) is not None or (f.direction != "out" and not f.optional):
                given[f.name] = self._read_tensors(f, given[f.name], arrays)
        for f in self.inputs:
            if f.is_tensor or (given[f.name] is None and f.optional):
                continue
            value, expected = read_value(f, given[f.name])
            if expected:
                raise self._refuse(f"{f.name} is {describe(given[f.name])}; expected {expected}")
            given[f.name] = value
        return given

    def _read_tensors(self, f: Field, value: Any, arrays: Arrays) -> Any:
        if not f.is_list:
            return self._read_tensor(f, f.name, value, arrays)
        if not isinstance(value, (list, tuple)):
            raise self._refuse(f"{f.name} is {describe(value)}; expected a list of tensors")
        return [
            None if item is None and f.has_optional_items else self._read_tensor(f, f"{f.name}[{i}]", item, arrays)
            for i, item in enumerate(value)
        ]

    def _read_tensor(self, f: Field, name: str, value: Any, arrays: Arrays) -> torch.Tensor:
        try:
            tensor = arrays.tensor(value)
        except NegativeStrides:
            text = f"{name} is {describe(value)}, which is not contiguous; pass a contiguous copy"
            raise self._refuse(text) from None
        except Exception as error:  # an array's own hooks can raise anything
            raise self._refuse(f"{name} is {describe(value)}; expected a torch.Tensor") from error
        if tensor is None:
            remedy = f"; torch.tensor({name}) makes one" if _is_number_like(value) else ""
            raise self._refuse(f"{name} is {describe(value)}; expected a torch.Tensor{remedy}")
        if f.is_written and arrays.is_read_only(value):
            raise self._refuse(f"{name} is a read-only array, and the kernel writes to it; pass a copy")
        return tensor


def _is_number_like(value: Any) -> bool:
    """Return whether ``torch.tensor`` accepts a value: a number, or lists of numbers."""
    for _ in range(8):
        if type(value) not in (list, tuple):
            break
        if not value:
            return True
        value = value[0]
    return type(value) in (int, float)


def in_stream(kernel: str, stream: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> AbstractContextManager[Any]:
    """Make a call's stream the current one, because an operator has no argument for it.

    Raises
    ------
    ArgumentError
        If the call is for the CPU, which has no streams.
    """
    if stream is None:
        return nullcontext()
    tensors = [
        argument for argument in (*args, *kwargs.values()) if isinstance(argument, torch.Tensor) and argument.is_cuda
    ]
    if not tensors:
        raise ArgumentError(
            f"{kernel}: stream is {describe(stream)}; expected no stream, since the tensors are on the cpu"
        )
    if isinstance(stream, int):
        stream = torch.cuda.ExternalStream(stream, device=tensors[0].device)  # type: ignore[no-untyped-call]
    current: AbstractContextManager[Any] = torch.cuda.stream(stream)
    return current


def call_overloads(overloads: Sequence[OverloadCall], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call the first overload that accepts the arguments, because the glue cannot choose one for tensors without data.

    Raises
    ------
    ArgumentError
        If no overload accepts them. The message lists each signature with the reason.
    """
    if len(overloads) == 1:
        return overloads[0](args, kwargs)
    reasons = []
    for overload in overloads:
        try:
            return overload(args, kwargs)
        except TkjitError as error:
            reasons.append(f"\n  {signature_text(overload.spec)}\n    {error}")
    name = overloads[0].spec.name
    raise ArgumentError(f"{name}: no overload takes these arguments:{''.join(reasons)}")


def read_value(f: Field, value: Any) -> tuple[Any, str]:
    """Convert a value for an operator. If it does not fit the field, the second result describes what was expected."""
    if f.value_type is not None:
        read = _read_by_code(f.value_type.code, value)
        return read, "" if read is not None else f.value_type.text
    bounds = SCALAR_TYPES.get(f.dtype)
    kind = python_type(f)
    read = _READERS[kind](value)
    expected = f"{'an' if kind == 'int' else 'a'} {kind}"
    if read is None:
        return None, expected
    # do not compare a symbolic integer, because torch.compile would add a guard
    if bounds and isinstance(read, int) and not bounds[0] <= read <= bounds[1]:
        return None, f"{expected} from {bounds[0]} to {bounds[1]}"
    return read, ""


def _number_of(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) and value.dim() == 0 else value


def _read_int(value: Any) -> Any:
    value = _number_of(value)
    if isinstance(value, torch.SymInt) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return None if isinstance(value, (bool, torch.Tensor)) else _convert(operator.index, value)


def _read_float(value: Any) -> Any:
    value = _number_of(value)
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        return value
    unfit = isinstance(value, (str, complex, torch.Tensor)) or "complex" in type(value).__name__
    return None if unfit else _convert(float, value)


def _read_bool(value: Any) -> Any:
    value = _number_of(value)
    if isinstance(value, (bool, torch.SymBool)):
        return value
    return bool(value) if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_") else None


_READERS: dict[str, Callable[[Any], Any]] = {"int": _read_int, "float": _read_float, "bool": _read_bool}


def _read_by_code(code: str, value: Any) -> Any:
    """Convert a value by its type's code (``tkjit/spec/values.py``); None if the value has another type."""
    match code[0]:
        case "t":
            found = value if isinstance(value, torch.dtype) else getattr(torch, _dtype_name(value), None)
            return found if isinstance(found, torch.dtype) else None
        case "d" if not isinstance(value, bool):
            if isinstance(value, int):
                return torch.device("cuda", value)
            return _convert(torch.device, value) if isinstance(value, (str, torch.device)) else None
        case "s":
            return value if isinstance(value, str) else None
        case "g":
            return value if isinstance(value, torch.Generator) else None
        case "L" if code[1] in "ij" and (single := _read_int(value)) is not None:
            return [single]
        case "L" if isinstance(value, (list, tuple)):
            items = [_read_by_code(code[1:], item) for item in value]
            return None if any(item is None for item in items) else items
        case "i" | "j":
            return _read_int(value)
        case "f":
            return _read_float(value)
        case "b":
            return value if isinstance(value, bool) else None
        case _:
            return None


def _dtype_name(value: Any) -> str:
    """Return the name of a dtype given as text, ``numpy.float32`` or ``numpy.dtype("float32")``, or else ""."""
    if isinstance(value, str):
        return value
    owner = value if isinstance(value, type) else type(value)
    if owner.__module__.partition(".")[0] != "numpy":
        return ""
    return str(value.__name__ if owner is value else getattr(value, "name", "")).rstrip("_")


def _convert(kind: Callable[[Any], Any], value: Any) -> Any:
    try:
        return kind(value)
    except Exception:  # an object passed by the caller can raise anything
        return None
