"""Compares a kernel's outputs with the reference, and between thread orders."""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import zip_longest
from typing import Any

import torch

from tkjit.check.arguments import each_tensor, tensors_in_order
from tkjit.errors import SpecError
from tkjit.spec import Spec

# how far the next number is in formats of a bit or none behind the point: a part of the larger one, at least so much
_STEPS = {"float8_e8m0fnu": (1 / 2, 0.0), "float4_e2m1fn_x2": (1 / 3, 0.5)}
_MAX_STEPS = 100  # one element of so many may be a step off: what is rounded may have been nearly between two
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def against_reference(
    spec: Spec, arguments: Mapping[str, Any], outputs: Mapping[str, torch.Tensor]
) -> list[dict[str, Any]]:
    """What differs from the reference by more than rounding explains; nothing where there is none to compare with.

    Parameters
    ----------
    arguments : mapping
        Of the call, as they were before it.
    outputs : mapping
        What the kernel has written.
    """
    reference = spec.reference
    if reference is None or spec.is_random:
        return []
    copies = {name: each_tensor(value, torch.Tensor.clone) for name, value in arguments.items()}
    for f in spec.outputs:
        copies[f.name] = None
    try:
        with torch.no_grad():
            expected = reference(**copies)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        dim = next(iter(spec.dim_names), "N")
        sizes = f"check's own sizes; --dim {dim}=1024 gives others, constraints= in the spec says which it takes"
        return [{"kind": "result", "text": f"the reference fails: {reason}; {sizes}"}]
    results = expected if isinstance(expected, tuple) else (expected,)
    is_tensors = isinstance(expected, (tuple, torch.Tensor))
    if is_tensors and len(results) < len(spec.returns):
        said = f"the reference returns {len(results)} of {len(spec.returns)} results"
        return [{"kind": "result", "text": f"{said}: {', '.join(spec.returns)}"}]
    named = dict(zip_longest(spec.returns, results[: len(spec.returns)]))
    returned = {name: value for name, value in named.items() if name in outputs and name in compared_results(spec)}
    for name, value in returned.items():
        if not isinstance(value, torch.Tensor):
            said = f"the reference returns {type(value).__name__} for {name}, and a tensor is expected"
            return [{"kind": "result", "text": f"{said}; return it from the function's body"}]
    in_place, before = _changed_in_place(spec, copies), _changed_in_place(spec, arguments)
    unchanged = {name for name, value in in_place.items() if same_bytes(value, before[name])} - returned.keys()
    return differences(spec, {**in_place, **returned}, outputs, None, unchanged)


def _changed_in_place(spec: Spec, arguments: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors of the fields that are read and written, and that are compared."""
    compared = {f.name for f in spec.tensors if f.direction == "inout"} & compared_results(spec)
    return {name: one for name, one in tensors_in_order(spec, arguments) if name.partition("[")[0] in compared}


def compared_results(spec: Spec) -> set[str]:
    """What a kernel writes, and its spec has compared."""
    return {f.name for f in spec.tensors if f.is_written} - set(spec.verification.unchecked)


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype have the same bytes: torch compares not all dtypes, and no NaN."""
    pair = [tensor.contiguous().view(-1).view(torch.uint8) if tensor.numel() else tensor for tensor in (one, other)]
    return torch.equal(*pair)


def differences(
    spec: Spec,
    expected: Mapping[str, torch.Tensor],
    outputs: Mapping[str, torch.Tensor],
    order: str | None,
    unchanged: Set[str] = frozenset(),
) -> list[dict[str, Any]]:
    """Findings of outputs that are not the same but for rounding: sums may be added up in another order.

    Parameters
    ----------
    order : str or None
        In which the threads have run for ``outputs``; None where ``expected`` is the reference's.
    unchanged : set of str
        What the reference should have changed in place, and has not.
    """
    found = []
    for name, wanted in expected.items():
        got = outputs[name]
        if wanted.shape != got.shape:
            text = f"the shape of {name} is {list(got.shape)} by the spec, and {list(wanted.shape)} by the reference"
            text += ", the function's body: change the dims in its annotation, or what the body returns"
            found += [{"kind": "result", "text": text}] if order is None else []
            continue
        # between two orders of the threads nothing but the order of a sum may differ
        difference = _first_difference(wanted, got, 0.0 if order is not None else spec.verification.tolerance)
        if difference is None:
            continue
        index, count, one, other = difference
        place = f"{name}[{', '.join(map(str, index))}]"
        if order is None:
            text = f"{place} is {other}, and {one} by the reference, the function's body; {_elements(count)}"
            text += f"; the reference has not changed {name}, as {name}.add_(1) would" if name in unchanged else ""
            found.append({"kind": "result", "text": text})
        else:
            values = f"{place} is {one} in forward order, {other} in {order} order; {_elements(count)}"
            found.append({"kind": "order", "text": f"the result depends on the order of the threads: {values}"})
    return found


def _elements(count: int) -> str:
    return "one element differs" if count == 1 else f"{count} elements differ"


def _first_difference(
    wanted: torch.Tensor, got: torch.Tensor, tolerance: float
) -> tuple[tuple[int, ...], int, float, float] | None:
    """Where two tensors differ first, in how many elements, and what stands there; None if only by rounding."""
    if not wanted.numel():
        return None
    a, b = numbers_of(wanted, got.dtype), numbers_of(got, got.dtype)
    if step := _STEPS.get(str(got.dtype).removeprefix("torch.")):
        part, least = step
        same = (a == b) | (a.isnan() & b.isnan())
        near = (a - b).abs() <= (part * torch.maximum(a.abs(), b.abs())).clamp(min=least)
        if (near & ~same).sum() <= max(1, same.numel() // _MAX_STEPS):
            same |= near
    elif wanted.dtype.is_floating_point or wanted.dtype.is_complex:
        # a unit or two in the last place of the value, and of the largest what a sum of a few hundred float terms loses
        largest = float(a[a.isfinite()].abs().max()) if bool(a.isfinite().any()) else 0.0
        eps = torch.finfo(got.dtype).eps
        lost = max(min(eps, 2**-8), 128 * torch.finfo(torch.float32).eps)
        bound = 2 * eps * a.abs() + lost * largest
        if tolerance:  # as verify takes it: a part of an element's row
            finite = torch.where(a.isfinite(), a, 0.0)
            rows = finite.square().mean(-1, keepdim=True).sqrt() if finite.dim() else finite.abs()
            bound = torch.maximum(bound, tolerance * torch.maximum(rows, a.abs()))
        same = (a - b).abs() <= bound
        same |= (a == b) | (a.isnan() & b.isnan())
    else:
        same = a == b
    wrong = (~same).nonzero()
    if not len(wrong):
        return None
    index = tuple(int(i) for i in wrong[0])
    return index, len(wrong), float(a[index]), float(b[index])


def numbers_of(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As float64; pairs of 4-bit floats, which a reference may give as bytes, and complex parts along one more axis."""
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj()).double()
    if str(dtype) != "torch.float4_e2m1fn_x2":
        return tensor.double()
    if tensor.element_size() != 1:
        raise SpecError(f"the reference gives {tensor.dtype} where the kernel gives {dtype}; expected its bytes")
    pairs = tensor.view(torch.uint8)
    codes = torch.stack((pairs & 15, pairs >> 4), dim=-1)
    magnitudes = torch.tensor(_E2M1, dtype=torch.float64)[(codes & 7).long()]
    return torch.where(codes < 8, magnitudes, -magnitudes)
