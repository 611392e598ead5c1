"""Wraps arrays of other frameworks as tensors, because an operator takes only tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from tkjit.errors import ArgumentError
from tkjit.torchlib.describe import describe, type_name


class NegativeStrides(Exception):
    """An array cannot share its memory with a tensor, because its strides are negative."""


def is_proxy(value: Any) -> bool:
    """Return whether a value is not a tensor but is used like one: torch calls its ``__torch_function__``."""
    return not isinstance(value, torch.Tensor) and hasattr(type(value), "__torch_function__")


_INTERFACES = ("__cuda_array_interface__", "__array_interface__")


def _shows_memory(value: Any) -> bool:
    """Return whether a value offers its memory in a way that the runtime can read (``runtime/interfaces.h``)."""
    is_capsule = type(value).__name__ == "PyCapsule"
    return is_capsule or any(hasattr(value, name) for name in ("__dlpack__", *_INTERFACES)) or _is_buffer(value)


def _is_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return True


class Arrays:
    """The arrays of one call, and the tensors that share their memory.

    Parameters
    ----------
    capsule_of : callable
        Returns an array's DLPack capsule, or None if its strides are negative. torch would abort on such a capsule.
    """

    def __init__(self, capsule_of: Callable[[Any], Any]) -> None:
        self._capsule_of = capsule_of
        self._arrays: dict[int, tuple[torch.Tensor, Any]] = {}  # keyed by the tensor's id
        self._like: Any = None  # the call's first tensor or array

    def tensor(self, value: Any) -> torch.Tensor | None:
        """Return a tensor as it is, an array as a tensor that shares its memory, and None for anything else.

        Raises
        ------
        NegativeStrides
            If an array's strides are negative.
        Exception
            Any exception that the array's own ``__dlpack__`` raises.
        """
        is_first = not self._arrays and self._like is None
        if isinstance(value, torch.Tensor):
            if is_first:
                self._like = value
            return value
        if is_proxy(value):
            proxy: torch.Tensor = value  # not a tensor, but torch calls its __torch_function__
            return proxy
        if isinstance(value, type) or not _shows_memory(value):
            return None
        capsule = self._capsule_of(value)
        if capsule is None:
            raise NegativeStrides
        tensor: torch.Tensor = from_dlpack(capsule)
        if is_first:
            self._like = value
        self._arrays[id(tensor)] = (tensor, value)
        return tensor

    @staticmethod
    def is_read_only(value: Any) -> bool:
        """Return whether an array is read-only. NumPy's arrays have a flag for this, and JAX's are immutable."""
        if isinstance(value, torch.Tensor):
            return False
        for name in _INTERFACES:
            if not hasattr(value, "__dlpack__") and hasattr(value, name):
                return bool(getattr(value, name)["data"][1])
        if _is_buffer(value) and not hasattr(value, "__dlpack__"):
            return memoryview(value).readonly
        flags = getattr(value, "flags", None)
        return type(value).__module__.startswith("jax") or not getattr(flags, "writeable", True)

    def given_back(self, value: Any) -> Any:
        """Convert a result to the first argument's framework; return an argument just as the caller passed it."""
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in self._arrays:
            return self._arrays[id(value)][1]
        if self._like is None or isinstance(self._like, torch.Tensor) or not hasattr(self._like, "__dlpack__"):
            return value
        try:
            return self._like.__array_namespace__().from_dlpack(value.detach())
        except Exception as error:  # NumPy has no bfloat16
            framework = type_name(self._like)
            raise ArgumentError(
                f"a result is {describe(value)}, which {framework} cannot hold; pass tensors to get a tensor"
            ) from error
