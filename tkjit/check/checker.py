"""``check``: builds the checkers of a kernel's variants, runs them on its cases, and joins their findings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Timer
from typing import Any

from tkjit.check.arguments import tensors_in_order
from tkjit.check.cases import Case, cases_of
from tkjit.check.child import Run, run
from tkjit.check.findings import MODE_OF, Finding, addresses_in, finding_of
from tkjit.check.plan import MEMORY, RACE, CheckerPlan
from tkjit.check.results import against_reference, differences
from tkjit.check.symbols import Symbols
from tkjit.errors import SpecError
from tkjit.headers import locate
from tkjit.loader import Loader, first_variant
from tkjit.loader.labels import describe
from tkjit.spec import CExpr, Spec, Variant, variants_of
from tkjit.system.machine import usable_cores

VOLATILE = ("race", "atomic")
MODES = ("memory", "race", "init", "order")
# the orders beside the forward one, each with the seed that it adds to the caller's; a race may need another order to
# be run into, as when a consumer that comes first finds a barrier that its producer has passed
_ORDERS = (("reverse", 0), ("adversarial", 0), ("random", 0), ("adversarial", 1))
_ORDERS_FOR_RACES = _ORDERS[:2]
_LONG_S = 10  # a launch that takes as long is told


@dataclass(frozen=True)
class Options:
    """How to check.

    Parameters
    ----------
    modes : sequence of str
        Of ``MODES``.
    types : sequence of str
        Only variants whose dtypes are all among these.
    given : mapping
        Extents of dims and values of numbers that the caller has chosen.
    seed : int
        For the inputs' values and the random orders.
    timeout_s : float
        For each launch.
    trace : bool
        Whether barriers and copies are written to standard error.
    volatile : str
        ``"race"``: a volatile access races as any other one does, though beside another volatile or an atomic one it
        is a warning; ``"atomic"``: it counts as a relaxed atomic.
    strict : bool
        Whether warnings are findings.
    """

    modes: Sequence[str] = MODES
    types: Sequence[str] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    timeout_s: float = 60.0
    trace: bool = False
    volatile: str = "race"
    strict: bool = False

    def __post_init__(self) -> None:
        if unknown := set(self.modes) - set(MODES):
            raise SpecError(f"no mode {', '.join(sorted(unknown))}; there are {', '.join(MODES)}")
        if self.volatile not in VOLATILE:
            raise SpecError(f"volatile={self.volatile!r} is not known; expected {' or '.join(VOLATILE)}")


@dataclass
class Report:
    """What a check has found, and how much was run.

    Parameters
    ----------
    findings : list of Finding
        With which it fails.
    launches : int
    warnings : list of Finding
        With which only a strict check fails; there they are among the findings.
    """

    findings: list[Finding] = field(default_factory=list)
    launches: int = 0
    warnings: list[Finding] = field(default_factory=list)

    def add(self, found: Iterable[Finding]) -> None:
        known = {one.key for one in (*self.findings, *self.warnings)}
        for one in sorted(found, key=lambda one: one.warning):
            if one.key not in known:
                known.add(one.key)
                (self.warnings if one.warning else self.findings).append(one)

    def join(self, other: Report) -> None:
        """Add what another one has found and run."""
        self.add([*other.findings, *other.warnings])
        self.launches += other.launches


def check(loader: Loader, specs: Sequence[Spec], options: Options, cases: Sequence[Case] | None = None) -> Report:
    """Check a kernel, all its overloads and variants.

    Parameters
    ----------
    cases : sequence of Case, optional
        The calls, instead of those that the spec gives.

    Raises
    ------
    SpecError
        If no call can be made up, none of its variants is asked for, or it is a kernel over several devices.
    ToolchainError
        If a compiler's own runtime, or binutils, is missing.
    CompileError
        If the kernel does not compile for the CPU.
    """
    if specs[0].is_parallel:
        raise SpecError(f"{specs[0].name} runs on several devices, and a check runs one; its tests run it on the cpu")
    if cases is None:
        variants = [(spec, variant) for spec in specs for variant in variants_of(spec, options.types)]
    else:
        variants = _of_call(specs, cases[0])
    if not variants:
        raise SpecError(f"{specs[0].name} has no variant for {', '.join(options.types) or 'these arguments'}")
    report = Report()
    with ThreadPoolExecutor(usable_cores()) as pool:
        checkers = [_VariantChecker(loader, spec, variant, options) for spec, variant in variants]
        jobs = [
            pool.submit(checker.check, cases or _cases(spec, variant, options))
            for checker, (spec, variant) in zip(checkers, variants, strict=True)
        ]
        try:
            for job in jobs:
                report.join(job.result())
        except BaseException:  # Ctrl-C too: those under way launch nothing more
            for checker in checkers:
                checker.is_stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return report


def _cases(spec: Spec, variant: Variant, options: Options) -> list[Case]:
    return cases_of(spec, variant, options.given, options.seed)


def _of_call(specs: Sequence[Spec], case: Case) -> list[tuple[Spec, Variant]]:
    """The variant that a call's tensors ask for."""
    chosen = first_variant(specs, (), {name: value for name, value in case.arguments.items() if value is not None})
    return [chosen[:2]] if chosen is not None else []


class _VariantChecker:
    """One variant."""

    def __init__(self, loader: Loader, spec: Spec, variant: Variant, options: Options) -> None:
        self._loader, self._spec, self._variant, self._options = loader, locate(spec, loader.settings), variant, options
        self._target = loader.target("cpu")
        self._name = describe(spec, variant, self._target)
        self.is_stopped = False

    def check(self, cases: Sequence[Case]) -> Report:
        report = Report()
        ends = "memory" not in self._options.modes or self._run_all(MEMORY, cases, self._in_forward_order, report)
        if ends and {"race", "init", "order"} & set(self._options.modes):
            self._run_all(RACE, cases, self._in_all_orders, report)
        return report

    def _run_all(
        self, mode: str, cases: Sequence[Case], launch: Callable[[Path, Case], list[Run]], report: Report
    ) -> bool:
        """Run the cases; False, and no more of them, if a launch does not end: each other one would take as long."""
        plan = CheckerPlan(self._loader.env, self._spec, self._variant, self._target, mode)
        program = self._loader.open(plan).loaded
        symbols = Symbols(program, plan.source.path, plan.source.name)
        for case in cases:
            runs = launch(program, case)
            report.launches += len(runs)
            found = [one for each in runs for one in each.found]
            symbols.look_up(addresses_in(found))
            told = [one for one in found if self._is_reported(one) and not symbols.is_guard(one)]
            sizes = {name: one.element_size() for name, one in tensors_in_order(self._spec, case.arguments)}
            grid = {"grid": ", ".join(self._grid), "axes": len(self._grid)}
            told = [{**grid, "itemsize": sizes.get(one.get("name", ""), 1), **one} for one in told]
            words = [finding_of(one, symbols, self._name, case.name) for one in told]
            report.add([replace(one, warning=False) for one in words] if self._options.strict else words)
            if any(one.timed_out for one in runs):
                return False
        return True

    @property
    def _grid(self) -> list[str]:
        """As the spec writes it, by axis; empty if it is computed elsewhere."""
        grid = dict(self._spec.launch.shape).get("grid") or ()
        return [] if isinstance(grid, CExpr) else [expr.text for expr in grid]

    def _is_reported(self, one: Mapping[str, Any]) -> bool:
        """Whether a finding belongs to a mode that was asked for. What ends the program belongs to every mode."""
        mode = MODE_OF[one["kind"]]
        return not mode or mode in self._options.modes or bool(one.get("ends"))

    def _launch(self, program: Path, case: Case, order: str, seed: int) -> Run:
        options = self._options
        if self.is_stopped:
            raise CancelledError
        said = Timer(_LONG_S, self._say_long, [case])
        said.daemon = True
        said.start()
        try:
            return run(
                program,
                self._spec,
                case.arguments,
                order=order,
                seed=seed,
                timeout_s=options.timeout_s,
                trace=options.trace and order == "forward",
                volatile_is_atomic=options.volatile == "atomic",
            )
        finally:
            said.cancel()

    def _say_long(self, case: Case) -> None:
        if not self._loader.settings.quiet:
            ends = f"it is ended after {self._options.timeout_s:.0f} s (--timeout)"
            print(f"tkjit: {self._name}, {case.name}, has run for {_LONG_S} s; {ends}", file=sys.stderr)

    def _in_forward_order(self, program: Path, case: Case) -> list[Run]:
        return [self._launch(program, case, "forward", self._options.seed)]

    def _in_all_orders(self, program: Path, case: Case) -> list[Run]:
        first = self._launch(program, case, "forward", self._options.seed)
        runs = [first]
        compares = "order" in self._options.modes
        if compares and first.outputs is not None:
            first.found.extend(against_reference(self._spec, case.arguments, first.outputs))
        for order, more in _ORDERS if compares else _ORDERS_FOR_RACES:
            if runs[-1].timed_out:
                break
            other = self._launch(program, case, order, self._options.seed + more)
            if compares and first.outputs is not None and other.outputs is not None:
                other.found.extend(differences(self._spec, first.outputs, other.outputs, order))
            runs.append(other)
        return runs
