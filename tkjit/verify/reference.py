"""Computes a spec's reference, in float64 if possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tkjit.check.arguments import each_tensor, tensors_of
from tkjit.errors import SpecError, TkjitError
from tkjit.spec import Spec
from tkjit.verify.bounds import Bound, difference

RESULT = "the result"  # the name of the number that a host function returns
Results = dict[str, list[torch.Tensor]]  # by name; a kernel over several devices has one tensor per device


class _InFloat64(TorchFunctionMode):
    """Replaces conversions to other floating-point types by conversions to float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {name: _widened(value) for name, value in (kwargs or {}).items()}
        if getattr(func, "__name__", "") in ("float", "half", "bfloat16"):
            return args[0].double()
        return func(*(_widened(value) for value in args), **kwargs)


def _widened(value: Any) -> Any:
    if not isinstance(value, torch.dtype):
        return value
    return torch.float64 if value.is_floating_point else torch.complex128 if value.is_complex else value


def expected_results(spec: Spec, arguments: Mapping[str, Any], bound: Bound) -> tuple[Results, bool]:
    """Return the reference's results for a call, and whether they are in float64.

    The reference runs as it is written, and again with float64 for all floating-point inputs and conversions. The
    float64 results are returned only if they are near the results of the first run. They are not near if, for example,
    the reference works on bits.

    Raises
    ------
    SpecError
        If there is no reference, or if it fails.
    """
    if spec.reference is None:
        raise SpecError(f"{spec.name} has no reference: the body of its function is empty")
    try:
        plain, exact = in_both_ways(partial(_run, spec), arguments)
    except TkjitError:
        raise
    except Exception as error:  # a reference may raise anything
        raise SpecError(f"{spec.name}: the reference fails: {type(error).__name__}: {error}") from error
    near = exact is not None and all(
        len(exact[name]) == len(plain[name])
        and all(not difference(one, other, bound) for one, other in zip(exact[name], plain[name], strict=True))
        for name in plain
    )
    return (exact, True) if exact is not None and near else (plain, False)


def in_both_ways(
    run: Callable[[Mapping[str, Any]], Results], arguments: Mapping[str, Any]
) -> tuple[Results, Results | None]:
    """Run a function as it is written, and in float64; the second result is None if the float64 run fails."""
    plain = run(arguments)
    try:
        wide = {name: each_tensor(value, _as_float64) for name, value in arguments.items()}
        with _InFloat64():
            exact = run(wide)
    except Exception:  # torch lacks float64 versions of some functions, and views as other dtypes fail
        return plain, None
    return plain, exact if exact.keys() == plain.keys() else None


def _as_float64(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    convertible = tensor.is_floating_point() and tensor.dtype != torch.float4_e2m1fn_x2
    return tensor.double() if convertible else tensor


def reference_arguments(spec: Spec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a call's arguments for its reference, with None for outputs and scratch."""
    copies = {name: each_tensor(value, torch.Tensor.clone) for name, value in arguments.items()}
    return copies | dict.fromkeys(f.name for f in (*spec.outputs, *spec.scratch))


def returned_by_name(spec: Spec, returned: Any) -> dict[str, Any]:
    """Assign the values that a kernel or a reference returned to the outputs' names."""
    several = isinstance(returned, tuple) and len(spec.returns) > 1
    return dict(zip(spec.returns, returned if several else (returned,), strict=False))


def _run(spec: Spec, arguments: Mapping[str, Any]) -> Results:
    """Run the reference on copies of the arguments, and collect returned and in-place results."""
    copies = reference_arguments(spec, arguments)
    reference = spec.reference
    assert reference is not None
    with torch.no_grad():
        returned = reference(**copies)
    results = {f.name: tensors_of(copies[f.name]) for f in spec.tensors if f.direction == "inout"}
    for name, value in returned_by_name(spec, returned).items():
        if tensors := tensors_of(value):
            results[name] = tensors
    if spec.result:
        results[RESULT] = [torch.tensor(returned)]
    return results
