"""Registers operators whose implementation is a host function: by torch's own custom operators."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tkjit.errors import SpecError
from tkjit.extensions.schemas import schema_text

_taken: dict[str, str] = {}  # the schema of each operator that is registered here


def register_host_operator(
    name: str,
    schema: Any,
    defaults: Mapping[str, Any],
    call: Callable[..., Any],
    shapes: Callable[..., Any] | None,
) -> str:
    """Register an operator; the name below ``torch.ops.tkjit``, with a digest behind it where another has the name.

    Parameters
    ----------
    schema : FunctionSchema
    defaults : mapping
        Of arguments; those of the schema are among them.
    call : callable
        Runs it on tensors of any device.
    shapes : callable, optional
        Computes the results of fake tensors. An operator without results needs none.
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
                f"{name} cannot be traced: its function has no body, which would say the shapes of its results"
            )
        return shapes(*args, **kwargs)

    return name
