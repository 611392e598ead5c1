"""Calls a kernel in this process, and compares what it has written with the reference."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from tkjit.check.cases import Case, cases_of
from tkjit.errors import SpecError, TkjitError
from tkjit.headers import locate
from tkjit.kernel import Kernel, load
from tkjit.loader import Loader
from tkjit.spec import Spec, Variant, variants_of
from tkjit.verify.bounds import Bound, bound_of, difference, row_error
from tkjit.verify.guarded import Guarded, each_tensor, guarded, tensors_of
from tkjit.verify.reference import Results, expected_results

# of an input of up to two dims, and of more: a simulated multiplication takes a fraction of a nanosecond
_MAX_ELEMENTS = {False: 1 << 19, True: 1 << 19}


@dataclass(frozen=True)
class Outcome:
    """What came of one call.

    Parameters
    ----------
    kernel, variant, case : str
        ``"gemm"``, ``"T=bfloat16"``, ``"M=64, K=96, N=128"``.
    problems : tuple of str
        What is wrong; empty of a call that is right.
    errors : dict
        By result the largest error of a row, as a part of the row.
    tolerance : float
        The largest that is allowed.
    in_float64 : bool
        Whether the reference was computed in float64, and not as it is written.
    compile_cpu_s, call_cpu_s, call_s : float
        CPU seconds of the compilers, which the first call of a variant pays for, and of the call; its seconds.
    """

    kernel: str
    variant: str = ""
    case: str = ""
    problems: tuple[str, ...] = ()
    errors: dict[str, float] = field(default_factory=dict)
    tolerance: float = 0.0
    in_float64: bool = False
    compile_cpu_s: float = 0.0
    call_cpu_s: float = 0.0
    call_s: float = 0.0

    @property
    def is_right(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "problems": list(self.problems), "is_right": self.is_right}

    def __str__(self) -> str:
        parts = [part for text in (self.variant, self.case) for part in text.split(", ") if part]
        return f"{self.kernel}({', '.join(dict.fromkeys(parts))})"  # a variant may be a dim, which the case says too


@dataclass(frozen=True)
class Planned:
    """A call that is to be made.

    Parameters
    ----------
    spec : Spec
        The overload that takes it.
    reference : Spec
        The overload whose reference says what is right: its own, or the kernel's first.
    """

    spec: Spec
    reference: Spec
    variant: Variant
    case: Case

    @property
    def outcome(self) -> Outcome:
        """The names in an outcome, before there is one."""
        tolerance = bound_of(self.spec, self.variant).row
        return Outcome(self.spec.name, str(self.variant), self.case.name, tolerance=tolerance)


def planned(kernel: Kernel, types: Sequence[str], given: Mapping[str, Any], seed: int) -> Iterator[Planned]:
    """The calls of a kernel, of all its overloads and variants.

    Raises
    ------
    SpecError
        If it has no reference, or no call can be made up.
    """
    found = False
    for spec in kernel.specs:
        if any(f.draws is not None for f in spec.fields):
            raise SpecError(
                f"{spec.name} draws random numbers, which a reference draws otherwise: test what they are like"
            )
        reference = spec if spec.reference is not None else kernel.specs[0]
        if reference.reference is None:
            raise SpecError(f"{spec.name} has no reference: the body of its function is empty")
        for variant in variants_of(spec, types):
            chosen = {name: value for name, value in given.items() if name not in dict(variant.values)}
            if any(value != given.get(name, value) for name, value in variant.values):
                continue
            for case in cases_of(spec, variant, chosen, seed, _MAX_ELEMENTS):
                found = True
                yield Planned(spec, reference, variant, case)
    if not found:
        raise SpecError(f"{kernel.name} has no variant for {', '.join([*types, *map(str, given)]) or 'any call'}")


def make(call: Planned, kernel: Kernel, loader: Loader, device: str) -> Outcome:
    """Make a call on a device, between guards and with outputs of NaN, and say what came of it."""
    try:
        return _make(call, kernel, loader, device)
    except TkjitError as error:
        return replace(call.outcome, problems=(f"{type(error).__name__}: {error}",))


def _make(call: Planned, kernel: Kernel, loader: Loader, device: str) -> Outcome:
    spec, bound = call.spec, bound_of(call.spec, call.variant)
    if device == "cuda" and spec.is_parallel:
        raise SpecError(
            f"{spec.name} takes a process for each GPU, and verify has one; --device cpu simulates the devices"
        )
    compilers = _cpu_seconds(resource.RUSAGE_CHILDREN)
    if device == "cpu":
        loader.launcher(locate(spec, loader.settings), call.variant, loader.target("cpu"))
    loaded = load(kernel)
    guards: dict[str, list[Guarded]] = {}
    arguments = {
        name: _between_guards(value, device, guards.setdefault(name, [])) for name, value in _given(call).items()
    }
    expected, in_float64 = expected_results(call.reference, dict(call.case.arguments), bound)
    begun, begun_s = _cpu_seconds(resource.RUSAGE_SELF), time.perf_counter()
    returned = loaded(**arguments)
    if device == "cuda":
        torch.cuda.synchronize()
    outcome = replace(
        call.outcome,
        in_float64=in_float64,
        compile_cpu_s=_cpu_seconds(resource.RUSAGE_CHILDREN) - compilers,
        call_cpu_s=_cpu_seconds(resource.RUSAGE_SELF) - begun,
        call_s=time.perf_counter() - begun_s,
    )
    results = _results(spec, arguments, returned)
    problems = [*_outside(guards), *_changed_inputs(call, arguments), *_far_off(spec, expected, results, bound)]
    errors = {
        name: max((row_error(one, other) for one, other in _pairs(expected[name], results[name])), default=0.0)
        for name in expected
        if name in results and name not in spec.verification.unchecked
    }
    return replace(outcome, problems=tuple(problems), errors=errors)


def _given(call: Planned) -> dict[str, Any]:
    """The arguments by name, without scratch and without what is absent."""
    names = {f.name for f in call.spec.given}
    return {name: value for name, value in call.case.arguments.items() if name in names and value is not None}


def _between_guards(value: Any, device: str, kept: list[Guarded]) -> Any:
    def moved(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(guarded(tensor, device))
        return kept[-1].tensor

    return each_tensor(value, moved)


def _results(spec: Spec, arguments: Mapping[str, Any], returned: Any) -> Results:
    """What the kernel has written: in place, in outputs that it was given, and in those that the call has made."""
    results = {f.name: tensors_of(arguments[f.name]) for f in spec.tensors if f.is_written and f.name in arguments}
    several = isinstance(returned, tuple) and len(spec.returns) > 1
    for name, value in zip(spec.returns, returned if several else (returned,), strict=False):
        results.setdefault(name, tensors_of(value))
    if spec.result:
        results["the result"] = [torch.tensor(returned)]
    return {name: [tensor.cpu() for tensor in tensors] for name, tensors in results.items()}


def _outside(guards: Mapping[str, list[Guarded]]) -> Iterator[str]:
    """What was written beside a tensor."""
    for name, kept in guards.items():
        for one in kept:
            place = one.first_written
            if place is not None:
                size = one.tensor.element_size()
                where = f"element {place // size}" if place >= 0 else f"{-place} bytes before the first element"
                yield f"{name}: written out of bounds: {where}, of {list(one.tensor.shape)}"


def _changed_inputs(call: Planned, arguments: Mapping[str, Any]) -> Iterator[str]:
    for f in call.spec.tensors:
        if f.direction != "in" or f.name not in arguments:
            continue
        for before, after in _pairs(tensors_of(call.case.arguments[f.name]), tensors_of(arguments[f.name])):
            if not torch.equal(_bits(before), _bits(after.cpu())):
                yield f"{f.name}: the kernel has written to it, and it is an input"


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8) if tensor.numel() and tensor.dim() else tensor


def _far_off(spec: Spec, expected: Results, results: Results, bound: Bound) -> Iterator[str]:
    """Which results are not the reference's."""
    for name, wanted in expected.items():
        got = results.get(name, [])
        if name in spec.verification.unchecked:
            continue
        if len(got) != len(wanted):
            yield f"{name}: {len(got)} results, and {len(wanted)} by the reference"
            continue
        for number, (one, other) in enumerate(_pairs(wanted, got)):
            found = difference(one, other, bound)
            if found is not None:
                yield f"{name}{f' {number}' if len(wanted) > 1 else ''}: {found.text}"


def _pairs(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return list(zip(some, others, strict=False))


def _cpu_seconds(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime
