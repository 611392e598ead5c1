"""Calls functions of an exported library with PyTorch tensors, through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tkjit.spec.dtypes import DTYPES

NDIM = 8
ABI = 0x746B0001
KINDS = {1: "ArgumentError", 2: "ShapeError", 3: "LaunchError", 4: "MemoryError"}
NUMBERS = {dtype.name: number for number, dtype in enumerate(DTYPES)}


class Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class CTensor(ctypes.Structure):
    """``tkjit_tensor``."""

    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("read_only", ctypes.c_bool),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("device", Device),
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.c_int64 * NDIM),
        ("strides", ctypes.c_int64 * NDIM),
        ("memory", ctypes.c_void_p),
        ("generation", ctypes.c_uint64),
    )


class Failed(Exception):
    """An error of the library, with its kind as an attribute."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def c_tensor(tensor: torch.Tensor, **changes: Any) -> CTensor:
    """Return a C struct that describes a tensor's memory, with members replaced by ``changes``."""
    view = CTensor(ABI, False, NUMBERS[str(tensor.dtype).removeprefix("torch.")], tensor.ndim)
    view.data = tensor.data_ptr() or None
    for i, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        view.sizes[i], view.strides[i] = size, stride
    for name, value in changes.items():
        setattr(view, name, value)
    return view


class Library:
    """An export's library, whose functions are called by name with Python arguments.

    A tensor becomes a view of its memory, a float a double, an int an int64_t, a list a pointer and a length, and None
    a null pointer. An error is raised as ``Failed``.
    """

    def __init__(self, directory: Path, name: str) -> None:
        (path,) = (directory / "lib").glob(f"lib{name}.so.*")
        self.library = ctypes.CDLL(str(path))
        self.name = name
        self.library.tkjit_error_kind.argtypes = [ctypes.c_void_p]
        self.library.tkjit_free_error.argtypes = [ctypes.c_void_p]

    def common(self, function: str, *arguments: Any) -> None:
        """Call a function that all exports have."""
        self._call(f"tkjit_{function}", arguments)

    def __call__(self, function: str, *arguments: Any, stream: int | None = None) -> None:
        """Call a function of this export."""
        self._call(f"{self.name}_{function}", [*arguments, *([] if function.endswith("_shape") else [stream])])

    def _call(self, symbol: str, arguments: Sequence[Any]) -> None:
        function = getattr(self.library, symbol)
        function.restype = ctypes.c_void_p
        error = function(*(value for argument in arguments for value in _passed(argument)))
        if error:
            text = ctypes.string_at(error).decode()
            kind = KINDS[self.library.tkjit_error_kind(error)]
            self.library.tkjit_free_error(error)
            raise Failed(kind, text)


def _passed(argument: Any) -> list[Any]:
    match argument:
        case torch.Tensor():
            return [ctypes.byref(c_tensor(argument))]
        case CTensor():
            return [ctypes.byref(argument)]
        case bool():
            return [ctypes.c_bool(argument)]
        case int():
            return [ctypes.c_int64(argument)]
        case float():
            return [ctypes.c_double(argument)]
        case str():
            return [ctypes.c_char_p(argument.encode())]
        case list():
            return _passed_list(argument)
        case None:
            return [ctypes.c_void_p(None)]
    return [argument]


def _passed_list(items: list[Any]) -> list[Any]:
    if (items and isinstance(items[0], (torch.Tensor, CTensor))) or None in items:
        tensors = [item if item is None or isinstance(item, CTensor) else c_tensor(item) for item in items]
        pointers = [None if tensor is None else ctypes.pointer(tensor) for tensor in tensors]
        return [(ctypes.POINTER(CTensor) * len(items))(*pointers), ctypes.c_int64(len(items))]
    kind = ctypes.c_double if items and isinstance(items[0], float) else ctypes.c_int64
    return [(kind * len(items))(*items), ctypes.c_int64(len(items))]
