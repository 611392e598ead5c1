"""Compares a kernel's outputs with the reference and between thread orders."""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import zip_longest
from typing import Any

import torch

from tkjit.check.arguments import each_tensor, tensors_in_order
from tkjit.errors import SpecError
from tkjit.spec import Spec

# For dtypes with at most one mantissa bit: the largest distance between neighbouring numbers, as a fraction of the
# larger number, and the least distance between any two numbers.
_STEPS = {"float8_e8m0fnu": (1 / 2, 0.0), "float4_e2m1fn_x2": (1 / 3, 0.5)}
# One in this many elements may be off by such a distance, because its exact value may be halfway between two numbers.
_MAX_STEPS = 100
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def against_reference(
    spec: Spec, arguments: Mapping[str, Any], outputs: Mapping[str, torch.Tensor]
) -> list[dict[str, Any]]:
    """Compare outputs with the reference, and return findings for differences that rounding does not explain.

    Parameters
    ----------
    arguments : mapping
        The arguments of the call, as they were before it.
    outputs : mapping
        The tensors that the kernel has written.
    """
    reference = spec.reference
    if reference is None or spec.is_random:
        return []
    copies = {name: each_tensor(value, torch.Tensor.clone) for name, value in arguments.items()}
    copies |= dict.fromkeys(f.name for f in (*spec.outputs, *spec.scratch))
    try:
        with torch.no_grad():
            expected = reference(**copies)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        dim = next(iter(spec.dim_names), "N")
        sizes = f"check chose the sizes; pass others with --dim {dim}=1024, or limit them with constraints= in the spec"
        return [{"kind": "result", "text": f"the reference fails: {reason}; {sizes}"}]
    results = expected if isinstance(expected, tuple) else (expected,)
    is_tensors = isinstance(expected, (tuple, torch.Tensor))
    if is_tensors and len(results) < len(spec.returns):
        text = f"the reference returns {len(results)} of {len(spec.returns)} results: {', '.join(spec.returns)}"
        return [{"kind": "result", "text": text}]
    named = dict(zip_longest(spec.returns, results[: len(spec.returns)]))
    returned = {name: value for name, value in named.items() if name in outputs and name in compared_results(spec)}
    for name, value in returned.items():
        if not isinstance(value, torch.Tensor):
            text = f"the reference returns {type(value).__name__} for {name}; return a tensor from the function's body"
            return [{"kind": "result", "text": text}]
    in_place, before = _changed_in_place(spec, copies), _changed_in_place(spec, arguments)
    unchanged = {name for name, value in in_place.items() if same_bytes(value, before[name])} - returned.keys()
    return differences(spec, {**in_place, **returned}, outputs, None, unchanged)


def _changed_in_place(spec: Spec, arguments: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors of in-place fields that the spec does not exclude from comparison."""
    compared = {f.name for f in spec.tensors if f.direction == "inout"} & compared_results(spec)
    return {name: one for name, one in tensors_in_order(spec, arguments) if name.partition("[")[0] in compared}


def compared_results(spec: Spec) -> set[str]:
    """Return the names of written fields that the spec does not exclude from comparison."""
    return {f.name for f in spec.tensors if f.is_written} - set(spec.verification.unchecked)


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same bytes. ``torch.equal`` lacks some dtypes, and a NaN never equals itself."""
    # as_strided, because a contiguous tensor of one element may have any strides
    flat = [tensor.contiguous().as_strided((tensor.numel(),), (1,)) for tensor in (one, other)]
    return torch.equal(*(tensor.view(torch.uint8) for tensor in flat))


def differences(
    spec: Spec,
    expected: Mapping[str, torch.Tensor],
    outputs: Mapping[str, torch.Tensor],
    order: str | None,
    unchanged: Set[str] = frozenset(),
) -> list[dict[str, Any]]:
    """Return findings for outputs that differ by more than rounding, allowing for sums added up in another order.

    Parameters
    ----------
    order : str or None
        The order in which the threads ran for ``outputs``, or None if ``expected`` comes from the reference.
    unchanged : set of str
        Fields that the reference should have changed in place, but has not.
    """
    found = []
    for name, wanted in expected.items():
        got = outputs[name]
        if wanted.shape != got.shape:
            text = f"the shape of {name} is {list(got.shape)} in the spec, but {list(wanted.shape)} in the reference"
            text += " (the function's body); change the dims in the annotation, or what the body returns"
            found += [{"kind": "result", "text": text}] if order is None else []
            continue
        # the spec's tolerance is for the reference; between thread orders, only sums may be added up differently
        difference = _first_difference(wanted, got, 0.0 if order is not None else spec.verification.tolerance)
        if difference is None:
            continue
        index, count, one, other = difference
        place = f"{name}[{', '.join(map(str, index))}]"
        if order is None:
            text = f"{place} is {other}, but the reference (the function's body) gives {one}; {_elements(count)}"
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
    """Return the first differing index, the number of differing elements, and both values; None if they are equal."""
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
        # allow two units in the last place of the value, and the rounding error of a sum of a few hundred terms that
        # are as large as the largest value
        largest = float(a[a.isfinite()].abs().max()) if bool(a.isfinite().any()) else 0.0
        eps = torch.finfo(got.dtype).eps
        lost = max(min(eps, 2**-8), 128 * torch.finfo(torch.float32).eps)
        bound = 2 * eps * a.abs() + lost * largest
        if tolerance:  # an element's error is relative to its row, as in verify
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
    """Convert to float64. Complex numbers, and pairs of 4-bit floats (also given as bytes), get a new last axis."""
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj()).double()
    if str(dtype) != "torch.float4_e2m1fn_x2":
        return tensor.double()
    if tensor.element_size() != 1:
        raise SpecError(
            f"the reference returns {tensor.dtype}, but the kernel returns {dtype}; return {dtype} or its bytes"
        )
    pairs = tensor.view(torch.uint8)
    codes = torch.stack((pairs & 15, pairs >> 4), dim=-1)
    magnitudes = torch.tensor(_E2M1, dtype=torch.float64)[(codes & 7).long()]
    return torch.where(codes < 8, magnitudes, -magnitudes)
