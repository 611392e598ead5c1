"""Encodes a call's arguments for the process that runs the checked kernel (``tkjit/sim/check/arguments.h``)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import torch

from tkjit.errors import SpecError
from tkjit.spec import DTYPES, Field, Spec
from tkjit.spec.values import ValueType

# kind, dtype, present, starts_blank, rank, is_output; 8 extents, 8 strides; bytes of the name, payload and tensor
_HEADER = struct.Struct("<6i8q8q3q")
_SCALAR, _TENSOR, _LIST, _TEXT = range(4)
_REPEATED_BYTES = 16 << 20  # of the values of a meta tensor; a multiple of the page's size
_DTYPE_NUMBERS = {dtype.name: number for number, dtype in enumerate(DTYPES)}


def pack(spec: Spec, arguments: Mapping[str, Any], index: int = 0) -> bytes:
    """Encode the arguments in the order of the struct's fields.

    Parameters
    ----------
    index : int
        The value of all elements of meta tensors of integers. Those of floats are repeated random numbers. Tensors that
        begin as zeros, or with another value, are zero.
    """
    zeroed = spec.verification.zeroed
    packed = b"".join(_field(f, arguments[f.name], 0 if f.name in zeroed else index) for f in spec.struct_fields)
    # a null pointer makes the launcher drop a host function's result
    return packed + (_number(0) if spec.result else b"")


def tensors_in_order(spec: Spec, arguments: Mapping[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors with their names, in the order in which ``pack`` writes them."""
    found = []
    for f in spec.struct_fields:
        value = arguments[f.name]
        if f.is_list:
            found += [(f"{f.name}[{i}]", tensor) for i, tensor in enumerate(value or ()) if tensor is not None]
        elif f.is_tensor and value is not None:
            found.append((f.name, value))
    return found


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors of an argument, which may be a tensor, a list of tensors or something else."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in tensors_of(item)] if isinstance(value, (list, tuple)) else []


def each_tensor(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Apply ``change`` to each tensor of a value or a list; a tensor that occurs twice is changed only once."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if not isinstance(value, (list, tuple)):
        return value
    changed: dict[int, Any] = {}
    for item in value:
        if id(item) not in changed:
            changed[id(item)] = each_tensor(item, change)
    return [changed[id(item)] for item in value]


def unpack(spec: Spec, arguments: Mapping[str, Any], packed: bytes) -> dict[str, torch.Tensor]:
    """Decode the tensors that the kernel may have written, as they are after the launch."""
    written = {f.name for f in spec.tensors if f.is_written}
    after, position = {}, 0
    for name, before in tensors_in_order(spec, arguments):
        size = span(before.shape, before.stride()) * before.element_size()
        if name.split("[")[0] in written:
            piece = torch.frombuffer(bytearray(packed[position : position + size] or b"\0"), dtype=torch.uint8)
            after[name] = piece[:size].view(before.dtype).as_strided(before.shape, before.stride())
        position += size
    return after


def _field(f: Field, value: Any, index: int) -> bytes:
    if f.draws is not None:
        return _number(1)  # every case uses this seed
    if value is None:
        return _absent(f)
    if f.is_list:
        items = [
            _absent(f) if tensor is None else _tensor(f"{f.name}[{i}]", tensor, index) for i, tensor in enumerate(value)
        ]
        return _list(items)
    if f.is_tensor:
        is_blank = f.is_allocated and (f.fill is None or value.is_meta)
        return _tensor(f.name, value, index, starts_blank=is_blank, is_output=f.direction == "out")
    if f.value_type is not None:
        return _value(f.value_type, value)
    return _number(float(value) if f.dtype in ("float", "double") else int(value))


def _absent(f: Field) -> bytes:
    return _record(_SCALAR, payload=bytes(8), present=0, dtype=_dtype(f))


def _dtype(f: Field) -> int:
    return _DTYPE_NUMBERS.get(f.dtype, 0)


def _tensor(
    name: str, tensor: torch.Tensor, index: int, *, starts_blank: bool = False, is_output: bool = False
) -> bytes:
    count = span(tensor.shape, tensor.stride())
    if tensor.is_meta:
        payload = b"" if starts_blank else _repeated_values(tensor.dtype, count, index)
    else:
        flat = tensor.detach().as_strided((count,), (1,))
        payload = flat.view(torch.uint8).numpy().tobytes() if count else b""
    number = _DTYPE_NUMBERS[str(tensor.dtype).removeprefix("torch.")]
    return _record(
        _TENSOR,
        name,
        payload,
        extents=tensor.shape,
        strides=tensor.stride(),
        dtype=number,
        starts_blank=starts_blank,
        is_output=is_output,
        tensor_bytes=count * tensor.element_size(),
    )


def _repeated_values(dtype: torch.dtype, count: int, index: int) -> bytes:
    """Return values for the start of a tensor, which are repeated in the rest of it."""
    size = min(count, _REPEATED_BYTES // dtype.itemsize)
    if dtype in (torch.int32, torch.int64, torch.uint32, torch.uint64):
        values = torch.full((size,), index).to(dtype)
    elif dtype.is_floating_point and dtype.itemsize > 1:
        values = torch.randn(size, generator=torch.Generator().manual_seed(0)).to(dtype)
    else:
        return bytes(size * dtype.itemsize)
    return values.view(torch.uint8).numpy().tobytes() if size else b""


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the number of elements in memory from a tensor's first element to its last."""
    return prod(shape) and 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))


def _number(value: Any) -> bytes:
    return _record(_SCALAR, payload=struct.pack("<d" if isinstance(value, float) else "<q", value))


def _value(kind: ValueType, value: Any) -> bytes:
    if kind.code in "ib":
        return _number(int(value))
    if kind.code == "f":
        return _number(float(value))
    if kind.code == "s":
        text = value.encode()
        return _record(_TEXT, payload=text, extents=(len(text),))
    if kind.code == "t":
        return _number(_DTYPE_NUMBERS[str(value).removeprefix("torch.")])
    if kind.members:
        return _list(_struct(kind, value))
    if kind.item is not None:
        return _list([_value(kind.item, item) for item in value])
    raise SpecError(f"the checker cannot pass a {kind.text} to a kernel")


def _struct(kind: ValueType, value: Any) -> Iterator[bytes]:
    """Encode a struct's numbers. Its arrays are nested if the caller passed the struct, but flattened in a default."""
    numbers = [one for item in value for one in (item if isinstance(item, (list, tuple)) else [item])]
    types = [member.cpp for member in kind.members for _ in range(member.count)]
    for number, cpp in zip(numbers, types, strict=True):
        yield _number(float(number) if cpp in ("float", "double") else int(number))


def _list(items: Iterable[bytes]) -> bytes:
    items = list(items)
    return _record(_LIST, extents=(len(items),)) + b"".join(items)


def _record(
    kind: int,
    name: str = "",
    payload: bytes = b"",
    *,
    extents: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
    dtype: int = 0,
    present: int = 1,
    starts_blank: bool = False,
    is_output: bool = False,
    tensor_bytes: int = 0,
) -> bytes:
    text = name.encode()
    layout = (len(extents), is_output, *_eight(extents), *_eight(strides))
    return (
        _HEADER.pack(kind, dtype, present, starts_blank, *layout, len(text), len(payload), tensor_bytes)
        + text
        + payload
    )


def _eight(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return (*numbers, *(0,) * (8 - len(numbers)))
