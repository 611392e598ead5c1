"""Predicts in Python which variant a first call needs. Once the glue has been built, it chooses the variant in C++."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tkjit.spec import BY_NAME, Field, ParallelLayout, Spec, Variant
from tkjit.spec.variants import known_variant

if TYPE_CHECKING:
    import torch

FirstVariant: TypeAlias = tuple[Spec, Variant, str, int]  # the last two are the device's type and index


def first_variant(specs: Sequence[Spec], args: Sequence[Any], kwargs: Mapping[str, Any]) -> FirstVariant | None:
    """Return the variant that a call will probably need, or None if the arguments do not show it.

    A first call uses the prediction to build the launcher next to the glue. The glue makes the final choice, so a wrong
    prediction costs that call one extra launcher. ``Kernel.warm_up`` and ``tkjit.warming`` build the predicted
    variant. The prediction ignores constraints, so it cannot tell apart overloads that differ only in these.
    """
    import torch

    for spec in specs:
        positional = [f.name for f in spec.given if not f.keyword_only]
        given = {**dict(zip(positional, args, strict=False)), **kwargs}
        # the first tensor of a list represents all of them
        found = {f.name: _first(given.get(f.name)) for f in spec.tensors}
        tensors = {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}
        if any(f.is_required and f.name not in (tensors if f.is_tensor else given) for f in spec.fields):
            continue
        if not tensors:  # the device is then an argument, which only the glue reads
            continue
        if not all(_may_accept(f, tensors[f.name]) for f in spec.tensors if f.name in tensors):
            continue
        variant = Variant(tuple((name, _observe(spec, name, tensors, given)) for name, _ in spec.variants))
        device = next(iter(tensors.values())).device
        if device.type in ("cpu", "cuda") and (known := known_variant(spec, variant)) is not None:
            return spec, known, device.type, device.index or 0
    return None


def _may_accept(field: Field, tensor: torch.Tensor) -> bool:
    """Return whether a tensor has the field's number of dims, and its dtype unless a variant determines that."""
    if tensor.dim() < len(field.dims) or (tensor.dim() > len(field.dims) and not field.leading):
        return False
    return field.dtype not in BY_NAME or str(tensor.dtype).removeprefix("torch.") == field.dtype


def _first(value: Any) -> Any:
    """Return a tensor itself, the first tensor of a list, or this process's part of a parallel tensor."""
    if isinstance(value, (list, tuple)):
        return value[0] if value else None
    return value.tensor if isinstance(value, ParallelLayout) else value


def _observe(spec: Spec, name: str, tensors: Mapping[str, torch.Tensor], given: Mapping[str, Any]) -> str | int:
    """Return the dtype or integer that a variant's name gets from the arguments, or -1 if they do not determine it."""
    if name in spec.type_variants:
        if any(f.name == name for f in spec.dtype_fields):
            return str(given.get(name, next(f for f in spec.fields if f.name == name).default)).removeprefix("torch.")
        chooser = next(f for f in spec.tensors if f.dtype == name and f.name in tensors)
        return str(tensors[chooser.name].dtype).removeprefix("torch.")
    field = next((f for f in spec.fields if f.name == name), None)
    if field is not None:
        value = given.get(name, field.default)
        return value if isinstance(value, (int, str)) else -1
    if name in (computed := dict(spec.derived)):
        values = {used: _observe(spec, used, tensors, given) for used in computed[name].names if "." not in used}
        numbers = {used: value for used, value in values.items() if isinstance(value, int) and value >= 0}
        return computed[name].evaluate(numbers) if computed[name].names <= numbers.keys() else -1
    binder, index = spec.binder(name)
    shape = tensors[binder.name].shape if binder.name in tensors else ()
    return int(shape[index - len(binder.dims)]) if len(shape) >= len(binder.dims) else -1
