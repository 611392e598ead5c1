"""Compares a kernel's results with the expected results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from tkjit.check.arguments import tensors_of
from tkjit.check.results import same_bytes
from tkjit.spec import Spec
from tkjit.verify.bounds import Bound, difference, row_error
from tkjit.verify.guarded import Guarded
from tkjit.verify.reference import RESULT, Results, returned_by_name


def results_of(spec: Spec, arguments: Mapping[str, Any], returned: Any) -> Results:
    """Collect the results: in-place tensors, outputs passed to the call, and outputs that the call allocated."""
    results = {f.name: tensors_of(arguments[f.name]) for f in spec.tensors if f.is_written and f.name in arguments}
    for name, value in returned_by_name(spec, returned).items():
        results.setdefault(name, tensors_of(value))
    if spec.result:
        results[RESULT] = [torch.tensor(returned)]
    return {name: [tensor.cpu() for tensor in tensors] for name, tensors in results.items()}


def problems_of(
    spec: Spec, expected: Results, results: Results, bound: Bound, given: Mapping[str, Any]
) -> Iterator[str]:
    """Describe the results that differ from the reference's, for a call with given arguments."""
    in_place = {f.name for f in spec.inputs if f.is_written and f.name in given}
    for name, got in results.items():
        if name in spec.verification.unchecked or not got:
            continue
        wanted = expected.get(name, [])
        if len(got) != len(wanted):
            counts = "no result" if not wanted else f"{len(wanted)} results, but the kernel {len(got)}"
            yield f"{name}: the reference returns {counts}"
            continue
        for number, (expected_tensor, other) in enumerate(zip(wanted, got, strict=True)):
            if problem := difference(expected_tensor, other, bound):
                problem = f"{name}{f' {number}' if len(wanted) > 1 else ''}: {problem}"
                before = tensors_of(given[name])[number : number + 1] if name in in_place else []
                unchanged = any(same_bytes(expected_tensor, other.to(expected_tensor.dtype)) for other in before)
                yield f"{problem}; the reference has not changed it, as {name}.add_(1) would" if unchanged else problem


def errors_of(spec: Spec, expected: Results, results: Results) -> dict[str, float]:
    """Map each result to the largest relative error of any of its rows, or to infinity if the shapes differ."""
    errors: dict[str, float] = {}
    for name, wanted in expected.items():
        if name not in spec.verification.unchecked:
            pairs = zip(wanted, results.get(name, []), strict=False)
            errors[name] = max((row_error(one, other) for one, other in pairs), default=0.0)
    return errors


def writes_outside(guards: Mapping[str, Sequence[Guarded]]) -> Iterator[str]:
    """Describe writes to the guard bytes around tensors."""
    for name, kept in guards.items():
        for guard in kept:
            place = guard.first_written
            if place is not None:
                size = guard.tensor.element_size()
                where = f"element {place // size}" if place >= 0 else f"{-place} bytes before the first element"
                yield f"{name}: written out of bounds: {where}, of {list(guard.tensor.shape)}"


def writes_to_inputs(spec: Spec, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Describe writes to inputs."""
    for f in spec.tensors:
        if f.direction == "in" and f.name in after:
            pairs = zip(tensors_of(before[f.name]), tensors_of(after[f.name]), strict=True)
            if any(not same_bytes(one, other.cpu()) for one, other in pairs):
                yield f"{f.name}: the kernel has written to this input"
