"""Arrays of other frameworks as arguments of an operator, which takes tensors alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack


def is_array(value: Any) -> bool:
    """Whether a value is an array of another framework."""
    return not isinstance(value, (torch.Tensor, type)) and hasattr(value, "__dlpack__") and hasattr(value, "shape")


def call_with_arrays(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call with tensors that share the arrays' memory; the results are arrays of the first one's framework."""
    arrays: dict[int, Any] = {}  # by the tensor that stands for it

    def tensor_of(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and any(map(is_array, value)):
            return type(value)([tensor_of(one) for one in value])
        if not is_array(value):
            return value
        tensor = from_dlpack(value)
        arrays[id(tensor)] = (tensor, value)
        return tensor

    result = call(*map(tensor_of, args), **{name: tensor_of(value) for name, value in kwargs.items()})
    like = next(iter(arrays.values()))[1]

    def array_of(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        known = arrays.get(id(value))
        return known[1] if known else like.__array_namespace__().from_dlpack(value)

    return type(result)(*map(array_of, result)) if isinstance(result, tuple) else array_of(result)
