"""Arguments that choose a call's device or variant and are not passed to the kernel."""

from __future__ import annotations

from collections.abc import Container, Iterable

from tkjit.spec.model import Field


def device_field(fields: Iterable[Field]) -> Field | None:
    """Return the argument that chooses the device of a call without tensors; None if a tensor determines it."""
    fields = tuple(fields)
    if any(f.is_input for f in fields):
        return None
    return next((f for f in fields if f.value_type is not None and f.value_type.code == "d"), None)


def dtype_fields(fields: Iterable[Field], variants: Container[str]) -> tuple[Field, ...]:
    """Return the dtype arguments that choose the variant of the same name."""
    return tuple(f for f in fields if f.value_type is not None and f.value_type.code == "t" and f.name in variants)


def name_fields(fields: Iterable[Field], variants: Container[str]) -> tuple[Field, ...]:
    """Return the str arguments that choose the variant of the same name: an enumerator or type in the source."""
    return tuple(f for f in fields if f.value_type is not None and f.value_type.code == "s" and f.name in variants)


def deciding(fields: Iterable[Field], variants: Container[str]) -> frozenset[str]:
    """Return the names of all arguments that choose a device or variant."""
    fields = tuple(fields)
    device = device_field(fields)
    choosing = (*dtype_fields(fields, variants), *name_fields(fields, variants))
    return frozenset([*(f.name for f in choosing), *([device.name] if device else [])])
