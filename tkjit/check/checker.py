"""``check``: builds a checker for each variant of a kernel, runs it on the cases, and collects the findings."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Timer
from typing import Any

from tkjit.check.arguments import tensors_in_order
from tkjit.check.cases import Case, cases_of
from tkjit.check.child_process import Run, run
from tkjit.check.findings import MODE_OF, Finding, addresses_in, finding_of
from tkjit.check.growth import growths
from tkjit.check.overflow import HugeLaunches
from tkjit.check.plan import MEMORY, OVERFLOW, RACE, CheckerPlan
from tkjit.check.results import against_reference, differences
from tkjit.check.symbols import Symbols
from tkjit.errors import SpecError
from tkjit.headers import locate
from tkjit.loader import Loader, first_variant
from tkjit.loader.variant_names import describe
from tkjit.spec import CExpr, Spec, Variant, variants_of
from tkjit.system.machine import usable_cores

VOLATILE = ("race", "atomic")
MODES = ("memory", "race", "init", "order")
ALL_MODES = (*MODES, OVERFLOW)  # a mode that is not in MODES has to be requested
# The orders to run after the forward one, each with a number to add to the seed. Some races happen only in another
# order, for example if a consumer runs first and finds a barrier that its producer has passed.
_ORDERS = (("reverse", 0), ("adversarial", 0), ("random", 0), ("adversarial", 1))
_ORDERS_FOR_RACES = _ORDERS[:2]
_MULTIPLE, _QUOTIENT = re.compile(r"(\w+) % (\d+) == 0"), re.compile(r"(?<![\w.])(\w+) // (\d+)")
_LONG_S = 10  # a launch that takes longer prints a notice


@dataclass(frozen=True)
class Options:
    """The options of a check.

    Parameters
    ----------
    modes : sequence of str
        A selection of ``ALL_MODES``.
    types : sequence of str
        Check only the variants whose dtypes are all in this list; empty for all variants.
    given : mapping
        Extents of dims and values of numbers that the caller has chosen.
    seed : int
        The seed of the inputs' values and of the random orders.
    timeout_s : float
        The time limit of each launch.
    trace : bool
        Whether to write barriers and copies to standard error.
    volatile : str
        ``"race"``: a volatile access can race like any other, but a race with another volatile or an atomic access is
        only a warning; ``"atomic"``: a volatile access counts as a relaxed atomic.
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
        if unknown := set(self.modes) - set(ALL_MODES):
            raise SpecError(f"unknown mode {', '.join(sorted(unknown))}; expected {', '.join(ALL_MODES)}")
        if self.volatile not in VOLATILE:
            raise SpecError(f"volatile={self.volatile!r} is not known; expected {' or '.join(VOLATILE)}")


@dataclass(repr=False)
class Report:
    """The findings of a check, and the number of launches.

    Parameters
    ----------
    findings : list of Finding
        The check fails if there are any.
    launches : int
    warnings : list of Finding
        A strict check adds these to its findings instead.
    sources : dict
        The texts of sources that are not files, by their names in findings.
    calls : list of str
        The sizes of the calls that were made, such as ``N=37``.
    """

    findings: list[Finding] = field(default_factory=list)
    launches: int = 0
    warnings: list[Finding] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        counts = [(len(self.findings), "finding"), (len(self.warnings), "warning"), (self.launches, "launch")]
        shown = [f"{count} {word}{'' if count == 1 else 'es' if word == 'launch' else 's'}" for count, word in counts]
        return f"<tkjit report: {', '.join(shown)}>"

    def _repr_svg_(self) -> str | None:
        """Draw the findings in a notebook, if matplotlib is installed."""
        from tkjit.check.plot import svg_of

        return svg_of([*self.findings, *self.warnings], self.sources)

    def add(self, found: Iterable[Finding]) -> None:
        known = {one.key for one in (*self.findings, *self.warnings)}
        for finding in sorted(found, key=lambda finding: finding.warning):
            if finding.key not in known:
                known.add(finding.key)
                (self.warnings if finding.warning else self.findings).append(finding)

    def join(self, other: Report) -> None:
        """Add the findings and launches of another report."""
        self.add([*other.findings, *other.warnings])
        self.launches += other.launches
        self.sources |= other.sources
        self.calls = list(dict.fromkeys([*self.calls, *other.calls]))


def check(loader: Loader, specs: Sequence[Spec], options: Options, cases: Sequence[Case] | None = None) -> Report:
    """Check all overloads and variants of a kernel.

    Parameters
    ----------
    cases : sequence of Case, optional
        The calls to make, instead of those generated from the spec.

    Raises
    ------
    SpecError
        If no call can be generated, no variant matches the options, or the kernel runs on several devices.
    ToolchainError
        If the compiler's AddressSanitizer runtime or binutils is missing.
    CompileError
        If the kernel does not compile for the CPU.
    """
    if specs[0].is_parallel:
        raise SpecError(
            f"{specs[0].name} runs on several devices, but check simulates only one; test it with a Club of cpu devices"
        )
    if OVERFLOW in options.modes and specs[0].cooperative:
        raise SpecError(
            f"{specs[0].name} is cooperative, so its blocks wait for each other, but --overflow runs one alone"
        )
    if OVERFLOW in options.modes and cases is not None:
        raise SpecError(f"{specs[0].name}: the overflow mode chooses its own sizes; pass no arguments, or use dims=")
    if cases is None:
        variants = [(spec, variant) for spec in specs for variant in variants_of(spec, options.types)]
    else:
        variants = _of_call(specs, cases[0])
    if not variants:
        raise SpecError(f"{specs[0].name} has no variant for {', '.join(options.types) or 'these arguments'}")
    report = Report()
    report.sources = {source.name: source.text for spec in specs for _, source in spec.sources if source.text}
    with ThreadPoolExecutor(usable_cores()) as pool:
        checkers = [_VariantChecker(loader, spec, variant, options) for spec, variant in variants]
        jobs = [
            pool.submit(checker.check, cases or _cases(spec, variant, options))
            for checker, (spec, variant) in zip(checkers, variants, strict=True)
        ]
        try:
            for job in jobs:
                report.join(job.result())
        except BaseException:  # including Ctrl-C: running checkers start no further launch
            for checker in checkers:
                checker.is_stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return report


def _cases(spec: Spec, variant: Variant, options: Options) -> list[Case]:
    if not set(MODES) & set(options.modes):
        return []  # the overflow mode chooses its own
    return cases_of(spec, variant, options.given, options.seed)


def _of_call(specs: Sequence[Spec], case: Case) -> list[tuple[Spec, Variant]]:
    """Return the overload and variant that match a call's arguments."""
    chosen = first_variant(specs, (), {name: value for name, value in case.arguments.items() if value is not None})
    return [chosen[:2]] if chosen is not None else []


class _VariantChecker:
    """Checks one variant."""

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
        if OVERFLOW in self._options.modes:
            self._run_huge(report)
        return report

    def _run_all(
        self, mode: str, cases: Sequence[Case], launch: Callable[[Path, Case], list[Run]], report: Report
    ) -> bool:
        """Run the cases; stop and return False if a launch times out, because the others would as well."""
        program, symbols = self._built(mode)
        for case in cases:
            runs = launch(program, case)
            report.launches += len(runs)
            report.calls.append(case.name)
            found = [one for each in runs for one in each.found]
            symbols.look_up(addresses_in(found))
            reported = [one for one in found if self._is_reported(one) and not symbols.is_guard(one)]
            sizes = {name: one.element_size() for name, one in tensors_in_order(self._spec, case.arguments)}
            grid = {"rounding": ", ".join(self._rounding), "axes": len(self._grid)}
            reported = [{**grid, "itemsize": sizes.get(one.get("name", ""), 1), **one} for one in reported]
            self._add(reported, symbols, case.name, report)
            if any(one.timed_out for one in runs):
                return False
        return True

    def _run_huge(self, report: Report) -> None:
        """Run the last block of a huge launch for each dim."""
        program, symbols = self._built(OVERFLOW)
        options = self._options
        for dim, growth in growths(self._spec, self._variant, options.given, options.seed):
            if self.is_stopped:
                raise CancelledError
            if growth is None:
                report.calls.append(f"{dim} cannot grow alone")
                continue
            huge = HugeLaunches(program, self._spec, growth, options.seed, options.timeout_s)
            huge.run()
            report.launches += huge.launches
            report.calls += huge.names
            symbols.look_up(addresses_in(huge.found))
            self._add(huge.found, symbols, "", report)

    def _built(self, mode: str) -> tuple[Path, Symbols]:
        variant = self._loader.configured(self._spec, self._variant, self._target)
        plan = CheckerPlan(self._loader.env, self._spec, variant, self._target, mode)
        program = self._loader.open(plan).loaded
        return program, Symbols(program, plan.source.path, plan.source.name)

    def _add(self, found: Iterable[Mapping[str, Any]], symbols: Symbols, case: str, report: Report) -> None:
        findings = [finding_of(one, symbols, self._name, one.get("case", case)) for one in found]
        report.add([replace(one, warning=False) for one in findings] if self._options.strict else findings)

    @property
    def _grid(self) -> list[str]:
        """The grid's expressions in the spec, one per axis; empty if a C++ expression computes the grid."""
        grid = dict(self._spec.launch.shape).get("grid") or ()
        return [] if isinstance(grid, CExpr) else [expr.text for expr in grid]

    @property
    def _rounding(self) -> list[str]:
        """Those of the grid's expressions that round down, unless a constraint such as ``N % 128 == 0`` prevents it."""
        multiples = {}
        for constraint in self._spec.constraints:
            if match := _MULTIPLE.fullmatch(constraint.text):
                multiples[match[1]] = int(match[2])
        quotients = {text: _QUOTIENT.findall(text) for text in self._grid if "//" in text}
        return [
            text
            for text, found in quotients.items()
            if len(found) < text.count("//") or any(multiples.get(name, 1) % int(by) for name, by in found)
        ]

    def _is_reported(self, one: Mapping[str, Any]) -> bool:
        """Whether a finding belongs to a requested mode. Findings that end the program belong to every mode."""
        mode = MODE_OF[one["kind"]]
        return not mode or mode in self._options.modes or bool(one.get("ends"))

    def _launch(self, program: Path, case: Case, order: str, seed: int) -> Run:
        options = self._options
        if self.is_stopped:
            raise CancelledError
        notice = Timer(_LONG_S, self._print_notice, [case])
        notice.daemon = True
        notice.start()
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
            notice.cancel()

    def _print_notice(self, case: Case) -> None:
        if not self._loader.settings.quiet:
            ends = f"it is stopped after {self._options.timeout_s:.0f} s (--timeout)"
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
