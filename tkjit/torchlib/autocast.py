"""Applies a spec's ``autocast`` option with the rules of PyTorch's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tkjit.spec import Field, Spec
from tkjit.spec.schema import operator_fields

_KEYS = {"cpu": torch._C.DispatchKey.AutocastCPU, "cuda": torch._C.DispatchKey.AutocastCUDA}


def register_autocast(spec: Spec, operator: Any, library: Any) -> None:
    """Make an operator cast its inputs if autocast is on, and then call itself with autocast excluded.

    ``torch.library.register_autocast`` fixes one dtype; here, the ``with torch.autocast`` block sets the dtype.
    """
    qualified = operator.name().partition("::")[2]
    for device_type, key in _KEYS.items():
        call = _casting(spec, operator, device_type, torch._C.DispatchKeySet(key))
        operator.py_impl(key)(call)  # for calls that Python dispatches, as in make_fx
        library.impl(qualified, call, f"Autocast{device_type.upper()}")


def _casting(spec: Spec, operator: Any, device_type: str, keys: Any) -> Callable[..., Any]:
    fields = operator_fields(spec)

    def call(*arguments: Any) -> Any:
        dtype = torch.float32 if spec.autocast == "float32" else torch.get_autocast_dtype(device_type)
        name = str(dtype).removeprefix("torch.")
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return operator(
                *(
                    _cast(value, device_type, dtype) if _takes(spec, f, name) else value
                    for f, value in zip(fields, arguments, strict=False)
                )
            )

    return call


def _takes(spec: Spec, f: Field, dtype: str) -> bool:
    """Return whether a field accepts a dtype. For example, scales are float32 whatever dtype they scale."""
    return f.is_tensor and dtype in spec.dtypes_of(f)


def _cast(value: Any, device_type: str, dtype: torch.dtype) -> Any:
    if isinstance(value, (list, tuple)):
        return [_cast(item, device_type, dtype) for item in value]
    if value is None:
        return None
    is_eligible = value.is_floating_point() and value.device.type == device_type and value.dtype is not torch.float64
    return value.to(dtype) if is_eligible else value
