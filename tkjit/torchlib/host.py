"""Registers host functions as operators, through ``torch.library.custom_op``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tkjit.errors import SpecError
from tkjit.extensions.schemas import schema_text

_taken: dict[str, str] = {}  # maps the name of each operator registered here to its schema


def register_host_operator(
    name: str,
    schema: Any,
    defaults: Mapping[str, Any],
    call: Callable[..., Any],
    shapes: Callable[..., Any] | None,
) -> str:
    """Register an operator and return its name in ``torch.ops.tkjit``, with a digest appended if the name is taken.

    Parameters
    ----------
    schema : FunctionSchema
    defaults : mapping
        The arguments' defaults, including those in the schema.
    call : callable
        Runs the operator on tensors of any device.
    shapes : callable, optional
        Computes the results for fake tensors. An operator without results needs none.
    """
    text = schema_text(schema, defaults)
    if _taken.get(name, text) != text or (name not in _taken and hasattr(torch.ops.tkjit, name)):
        name = f"{name}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    _taken[name] = text
    mutated = [each.name for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    defined = torch.library.custom_op(f"tkjit::{name}", call, mutates_args=mutated, schema=text)
    returns_something = bool(schema.returns)

    @defined.register_fake
    def fake(*args: Any, **kwargs: Any) -> Any:
        if not returns_something:
            return None
        if shapes is None:
            raise SpecError(
                f"{name} cannot be traced: its function has no body that computes the shapes of its results; write one"
            )
        return shapes(*args, **kwargs)

    return name
