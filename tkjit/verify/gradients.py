"""Compares the gradients from ``backward=`` with autograd's gradients of the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from tkjit.errors import TkjitError
from tkjit.spec import Spec
from tkjit.spec.checks import differentiable
from tkjit.verify.bounds import Bound, difference, row_error
from tkjit.verify.reference import Results, in_both_ways, reference_arguments, returned_by_name

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)  # the dtypes that autograd differentiates
_SEED = 0
# a gradient's error may be this many times that of the reference in the call's dtypes; float64 counts as exact
_ROUNDINGS = 4


def gradient_problems(
    spec: Spec,
    reference: Spec,
    kernel: Callable[..., Any],
    arguments: Mapping[str, Any],
    for_reference: Mapping[str, Any],
    bound: Bound,
) -> tuple[list[str], dict[str, float]]:
    """Return problems with the gradients of a call, and the largest relative error of a row for each gradient.

    Both are empty if the kernel has no ``backward=``, or if autograd cannot differentiate the reference.

    Parameters
    ----------
    spec, reference : Spec
        The kernel's spec, and the spec with its reference.
    arguments, for_reference : mapping
        The arguments by name, on the call's device, and the same arguments on the CPU.
    """
    if spec.backward is None or any(f.direction == "inout" for f in spec.tensors):
        return [], {}
    inputs = [f.name for f in differentiable(spec) if _takes_gradient(arguments.get(f.name))]
    run = partial(_of_reference, reference, inputs)
    try:
        plain, exact = in_both_ways(run, for_reference)
    except Exception:  # a reference need not be differentiable, and may raise anything
        return [], {}
    if not plain:
        return [], {}
    # do not pass outputs, because a call that is passed its outputs records no gradients
    given = {name: value for name, value in arguments.items() if name not in spec.returns}
    try:
        found = _gradients(kernel, spec, given, inputs)
    except TkjitError as error:
        return [str(error)], {}
    except Exception as error:  # backward= may raise anything
        return [f"backward= fails: {type(error).__name__}: {error}"], {}
    problems, errors = [], {}
    for name, (wanted,) in plain.items():
        if name not in found:
            problems += [f"{name}: backward= returns no gradient"] if wanted.any() else []
            continue
        right = exact[name][0] if exact is not None else wanted
        problem = difference(right, found[name][0], bound)
        if problem and _is_rounding(wanted, right, found[name][0]):
            continue
        problems += [f"{name}: {problem}"] if problem else []
        errors[name] = row_error(right, found[name][0])
    return problems, errors


def _is_rounding(plain: torch.Tensor, exact: torch.Tensor, found: torch.Tensor) -> bool:
    """Whether a gradient's error is like the reference's own rounding, as when two large terms almost cancel."""
    if not plain.shape == exact.shape == found.shape:
        return False
    reference_error, own_error = ((one.double() - exact.double()).abs().max() for one in (plain, found))
    return bool(own_error <= _ROUNDINGS * reference_error)


def _takes_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _DTYPES


def _of_reference(spec: Spec, inputs: Sequence[str], arguments: Mapping[str, Any]) -> Results:
    assert spec.reference is not None
    return _gradients(spec.reference, spec, reference_arguments(spec, arguments), inputs)


def _gradients(
    function: Callable[..., Any], spec: Spec, arguments: Mapping[str, Any], inputs: Sequence[str]
) -> Results:
    """Return ``grad_x`` for each input that the results depend on, for fixed random gradients of the results."""
    inputs_by_name = {**arguments, **{name: arguments[name].detach().requires_grad_() for name in inputs}}
    with torch.enable_grad():
        returned = function(**inputs_by_name)
    generator = torch.Generator().manual_seed(_SEED)
    results, of_results = [], []
    for result in returned_by_name(spec, returned).values():
        if not isinstance(result, torch.Tensor):
            continue
        given = torch.randn(result.shape, generator=generator)
        if result.requires_grad:
            results.append(result)
            of_results.append(given.to(result.device, result.dtype))
    if not results:
        return {}
    found = torch.autograd.grad(results, [inputs_by_name[name] for name in inputs], of_results, allow_unused=True)
    return {f"grad_{name}": [value.cpu()] for name, value in zip(inputs, found, strict=True) if value is not None}
