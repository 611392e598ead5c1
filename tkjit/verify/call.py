"""Calls a kernel in this process, and compares its results with the reference."""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from tkjit.check.arguments import each_tensor
from tkjit.check.cases import Case, cases_of
from tkjit.errors import CacheError, CompileError, SpecError, TkjitError, ToolchainError
from tkjit.headers import locate
from tkjit.kernel_objects import Kernel, load
from tkjit.loader import Loader
from tkjit.spec import Spec, Variant, variants_of
from tkjit.verify.bounds import bound_of
from tkjit.verify.compare import errors_of, problems_of, results_of, writes_outside, writes_to_inputs
from tkjit.verify.gradients import gradient_problems
from tkjit.verify.guarded import Guarded, guarded
from tkjit.verify.reference import expected_results

# the most elements of one input; more than in check, because a simulated multiplication takes less than 1 ns
_MAX_ELEMENTS = 1 << 19


@dataclass(frozen=True)
class Outcome:
    """The outcome of one call.

    Parameters
    ----------
    kernel, variant, case : str
        ``"gemm"``, ``"T=bfloat16"``, ``"M=64, K=96, N=128"``.
    problems : tuple of str
        The problems; empty if the call is right.
    refused : str
        Why the call was not made, or why the kernel cannot be called; empty if the call was made.
    errors : dict
        The largest relative error of a row, for each result.
    tolerance : float
        The largest error that is allowed.
    in_float64 : bool
        Whether the reference was computed in float64 rather than as it is written.
    is_compiled : bool
        Whether the variant compiles.
    compile_cpu_s, call_cpu_s, call_s : float
        CPU time of the compilers (in a variant's first call), CPU time of the call, and its elapsed time.
    """

    kernel: str
    variant: str = ""
    case: str = ""
    problems: tuple[str, ...] = ()
    refused: str = ""
    errors: dict[str, float] = field(default_factory=dict)
    tolerance: float = 0.0
    in_float64: bool = False
    is_compiled: bool = True
    compile_cpu_s: float = 0.0
    call_cpu_s: float = 0.0
    call_s: float = 0.0

    @property
    def is_right(self) -> bool:
        return not self.problems and not self.refused

    @property
    def verdict(self) -> str:
        """``right``, the problems, or the reason why the call was not made."""
        return f"not verified: {self.refused}" if self.refused else "; ".join(self.problems) or "right"

    def as_json(self) -> dict[str, Any]:
        """Return the outcome for JSON, with None for numbers that are not finite."""
        errors = {name: error if math.isfinite(error) else None for name, error in self.errors.items()}
        return {**asdict(self), "problems": list(self.problems), "errors": errors, "is_right": self.is_right}

    def __str__(self) -> str:
        parts = [part for text in (self.variant, self.case) for part in text.split(", ") if part]
        return f"{self.kernel}({', '.join(dict.fromkeys(parts))})"  # a variant may be a dim, which the case also names


@dataclass(frozen=True)
class Planned:
    """A call that will be made.

    Parameters
    ----------
    spec : Spec
        The overload that takes the call.
    reference : Spec
        The overload whose reference is used: ``spec`` if it has a reference, otherwise the kernel's first overload.
    """

    spec: Spec
    reference: Spec
    variant: Variant
    case: Case

    @property
    def outcome(self) -> Outcome:
        """The outcome before the call is made, which has only the names and the tolerance."""
        tolerance = bound_of(self.spec, self.variant).row
        return Outcome(self.spec.name, str(self.variant), self.case.name, tolerance=tolerance)


def planned(
    kernel: Kernel, types: Sequence[str], given: Mapping[str, Any], seed: int, device: str = "cpu"
) -> Iterator[Planned]:
    """Plan the calls of all overloads and variants of a kernel.

    Raises
    ------
    SpecError
        If the kernel has no reference, or no call can be generated.
    """
    found = False
    if device == "cuda" and kernel.specs[0].is_parallel:
        raise SpecError(
            f"{kernel.name} needs one process per GPU, but verify uses one; --device cpu simulates the devices"
        )
    for spec in kernel.specs:
        if spec.is_random:
            raise SpecError(
                f"{spec.name} draws random numbers, which differ from a reference's; test their distribution instead"
            )
        reference = spec if spec.reference is not None else kernel.specs[0]
        if reference.reference is None:
            raise SpecError(f"{spec.name} has no reference: the body of its function is empty")
        for variant in variants_of(spec, types):
            chosen = {name: value for name, value in given.items() if name not in dict(variant.values)}
            if any(value != given.get(name, value) for name, value in variant.values):
                continue
            for case in cases_of(spec, variant, chosen, seed, dict.fromkeys((False, True), _MAX_ELEMENTS)):
                found = True
                yield Planned(spec, reference, variant, case)
    if not found:
        asked = [*types, *(f"{name}={value}" for name, value in given.items())]
        raise SpecError(f"{kernel.name} has no variant for {', '.join(asked) or 'any call'}")


def call_kernels(calls: Iterable[Planned], kernel: Kernel, loader: Loader, device: str) -> Iterator[Outcome]:
    """Make calls, and yield the outcome of each. If a variant does not compile, its other calls are not made."""
    uncompiled: dict[tuple[str, str], Outcome] = {}
    for call in calls:
        variant = (str(call.spec.entry), str(call.variant))
        if (first := uncompiled.get(variant)) is not None:
            yield replace(call.outcome, problems=(f"does not compile; see {first.case}",), is_compiled=False)
            continue
        outcome = call_kernel(call, kernel, loader, device)
        if not outcome.is_compiled:
            uncompiled[variant] = outcome
        yield outcome


def call_kernel(call: Planned, kernel: Kernel, loader: Loader, device: str) -> Outcome:
    """Make a call with guard bytes around its tensors and NaN in its outputs, and return the outcome."""
    try:
        return _call(call, kernel, loader, device)
    except (ToolchainError, CacheError) as error:
        return replace(call.outcome, refused=str(error))
    except CompileError as error:
        problem = f"CompileError: {error.summary}\n  whole log: {error.log_path}"
        return replace(call.outcome, problems=(problem,), is_compiled=False)
    except TkjitError as error:
        return replace(call.outcome, problems=(f"{type(error).__name__}: {error}",))


def _call(call: Planned, kernel: Kernel, loader: Loader, device: str) -> Outcome:
    spec, bound = call.spec, bound_of(call.spec, call.variant)
    compilers = _cpu_seconds(resource.RUSAGE_CHILDREN)
    loader.launcher(locate(spec, loader.settings), call.variant, loader.target(device))
    loaded = load(kernel)
    given = _given(call, device)
    guards: dict[str, list[Guarded]] = {}
    arguments = {name: _between_guards(value, device, guards.setdefault(name, [])) for name, value in given.items()}
    for_reference = {**call.case.arguments, **{name: given[name] for name in spec.deciding if name in given}}
    expected, in_float64 = expected_results(call.reference, for_reference, bound)
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
    results = results_of(spec, arguments, returned)
    problems = [
        *writes_outside(guards),
        *writes_to_inputs(spec, call.case.arguments, arguments),
        *problems_of(spec, expected, results, bound, call.case.arguments),
    ]
    if not set(results) - set(spec.verification.unchecked):
        problems.append("there is no result to compare")
    errors = errors_of(spec, expected, results)
    if not problems:
        problems, of_gradients = gradient_problems(spec, call.reference, loaded, arguments, for_reference, bound)
        errors |= of_gradients
    return replace(outcome, problems=tuple(problems), errors=errors)


def _given(call: Planned, device: str) -> dict[str, Any]:
    """Return the arguments by name, except scratch and the outputs that the call allocates."""
    given = {}
    for f in call.spec.given:
        value = call.case.arguments[f.name]
        if f is call.spec.device_field:
            value = torch.device(device)
        elif f in call.spec.dtype_fields:
            value = getattr(torch, str(value).removeprefix("torch."))
        if value is not None or (f.is_required and not f.is_allocated):
            given[f.name] = value
    return given


def _between_guards(value: Any, device: str, kept: list[Guarded]) -> Any:
    def moved(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(guarded(tensor, device))
        return kept[-1].tensor

    return each_tensor(value, moved)


def _cpu_seconds(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime
