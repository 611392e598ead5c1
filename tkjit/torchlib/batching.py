"""Implements ``vmap`` of a kernel as a loop over the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tkjit.errors import ArgumentError
from tkjit.spec import Spec
from tkjit.spec.schema import operator_fields


def loop_rule(spec: Spec, operator: Callable[..., Any], *, out: bool) -> Callable[..., Any]:
    """Make the rule that ``torch.library.register_vmap`` expects."""
    fields = operator_fields(spec, out=out)
    outputs = 0 if out else len(spec.outputs)

    def rule(info: Any, in_dims: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        for f, value, dim in zip(fields, args, in_dims, strict=False):
            dims = dim if isinstance(dim, (list, tuple)) else [dim]
            absent = [item is None for item in value] if isinstance(value, (list, tuple)) else [value is None]
            if f.is_written and any(
                item_dim is None and not is_absent for item_dim, is_absent in zip(dims, absent, strict=True)
            ):
                raise ArgumentError(
                    f"{spec.name}: {f.name} is written in place but has no batch dimension under vmap; expand it first"
                )
        results = []
        for i in range(info.batch_size):
            slices = [_slice(value, dim, i) for value, dim in zip(args, in_dims, strict=True)]
            results.append(operator(*slices))
            for f, value, dim, part in zip(fields, args, in_dims, slices, strict=False):
                if f.is_written and value is not None:
                    _put_back(value, dim, i, part)
        if outputs == 0:
            return None, None
        if outputs == 1:
            return torch.stack(results), 0
        return tuple(torch.stack(column) for column in zip(*results, strict=True)), (0,) * outputs

    return rule


def _slice(value: Any, dim: Any, i: int) -> Any:
    if dim is None:
        return value
    if isinstance(dim, (list, tuple)):
        return [None if item is None else _slice(item, item_dim, i) for item, item_dim in zip(value, dim, strict=True)]
    return value.select(dim, i).contiguous()


def _put_back(value: Any, dim: Any, i: int, part: Any) -> None:
    """Copy a slice back into its batch, if the slice is a copy rather than a view."""
    if isinstance(value, (list, tuple)):
        for item, item_dim, piece in zip(value, dim, part, strict=True):
            _put_back(item, item_dim, i, piece)
    elif value is None:
        return
    elif not (place := value.select(dim, i)).is_contiguous():  # the slice is a copy
        place.copy_(part)
