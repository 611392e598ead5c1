"""Describes arguments in messages, in the same words as the runtime."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch


def describe(value: Any) -> str:
    """Describe a value as ``3.0 (float)``, and a tensor by its shape, dtype and device, like ``runtime/refusals.h``."""
    if isinstance(value, torch.Tensor):
        return f"{_shape(value.shape)} {str(value.dtype).removeprefix('torch.')} on {value.device}"
    try:
        if not _holds_freed(value):
            return _describe(value)
    except Exception:  # its attributes and its __repr__ can raise anything
        pass
    return f"an object that cannot be shown ({type_name(value)})"


def _holds_freed(value: Any, depth: int = 0) -> bool:
    """Return whether a container holds a tensor whose storage was freed; printing it would crash torch."""
    if isinstance(value, torch.Tensor):
        with suppress(RuntimeError):  # sparse and batched tensors have no storage
            nbytes = value.untyped_storage().nbytes()
            return value.numel() > 0 and nbytes < (value.storage_offset() + value.numel()) * value.itemsize
        return False
    if depth > 8 or not isinstance(value, (list, tuple, dict, set, frozenset)):
        return False
    items = [*value, *value.values()] if isinstance(value, dict) else value
    return any(_holds_freed(item, depth + 1) for item in items)


def _describe(value: Any) -> str:
    if not isinstance(value, type) and hasattr(value, "__dlpack__") and hasattr(value, "dtype"):
        device = f" on {value.device}" if hasattr(value, "device") else ""
        return f"{_shape(value.shape)} {value.dtype}{device}"
    text = repr(value).replace("\n", " ")
    return f"{text[:60]}{'...' if len(text) > 60 else ''} ({type_name(value)})"


def _shape(shape: Any) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def type_name(value: Any) -> str:
    """Return the C-level name of a value's type. It includes the module, unless the type was made in Python."""
    kind = type(value)
    plain = kind.__module__ == "builtins" or kind.__flags__ & _HEAP_TYPE
    return kind.__name__ if plain else f"{kind.__module__}.{kind.__qualname__}"
