"""``check``: runs kernels in the simulator and reports errors that correct results can hide."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tkjit.cli.assignments import assignment
from tkjit.cli.output import add_json, add_model_arch, print_json
from tkjit.cli.selection import has_headers
from tkjit.config import Settings
from tkjit.errors import TkjitError
from tkjit.kernel_objects import find, kernels, kernels_named
from tkjit.kernel_objects.host import HostKernel
from tkjit.loader import Loader, loader_for
from tkjit.registry import own_name
from tkjit.spec import Spec

_MOST_CALLS = 8  # sizes that are listed for a kernel; --json lists all
_HELP = {
    "memory": "find accesses outside of tensors, shared memory and local arrays (AddressSanitizer)",
    "race": "find accesses of two threads that nothing orders",
    "init": "find shared memory and outputs that are read before they are written, or never written",
    "order": "find results that depend on the order in which threads run, or differ from the reference",
    "overflow": "find indices and sizes that overflow in huge launches (not among the default modes)",
}


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("check", help="find races, out-of-bounds accesses and other errors, without a GPU")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="kernels, packages or FILE.py to check (default: all kernels)"
    )
    modes = parser.add_argument_group("modes (default: the first four)")
    for mode, text in _HELP.items():
        modes.add_argument(f"--{mode}", action="append_const", dest="modes", const=mode, help=text)
    parser.add_argument("--types", default="", metavar="bfloat16", help="check only variants of these dtypes")
    parser.add_argument(
        "--dim", action="append", default=[], metavar="N=100", help="extent of a dim (default: several are tried)"
    )
    parser.add_argument("--arg", action="append", default=[], metavar="alpha=2.0", help="value of a number parameter")
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs and of the random orders (default: 0)")
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="time limit of each launch in seconds (default: 60)"
    )
    parser.add_argument("--strict", action="store_true", help="count warnings as findings")
    parser.add_argument(
        "--volatile",
        choices=("race", "atomic"),
        default="race",
        help="treat volatile accesses as unordered (race, the default) or as relaxed atomics (atomic)",
    )
    parser.add_argument("--trace", action="store_true", help="log barriers and asynchronous copies to standard error")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the findings beside the source: FILE.svg, FILE.png"
    )
    add_json(parser)
    add_model_arch(parser)
    parser.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    from tkjit.check import MODES, Options, Report, check
    from tkjit.check.plot import check_can_plot, plot

    if arguments.plot is not None:
        check_can_plot(arguments.plot)
    options = Options(
        modes=MODES if not arguments.modes else tuple(dict.fromkeys(arguments.modes)),
        types=[name for name in arguments.types.split(",") if name],
        given=dict(map(assignment, [*arguments.dim, *arguments.arg])),
        seed=arguments.seed,
        timeout_s=arguments.timeout,
        trace=arguments.trace,
        volatile=arguments.volatile,
        strict=arguments.strict,
    )
    loader = loader_for(Settings.from_environment())
    total, failed = Report(), False
    for name in kernels_named(arguments.names) or _all_kernels(loader):
        try:
            specs = find(name).specs
            report = check(loader, specs, options)
        except TkjitError as error:  # report it, and go on with the other kernels
            own = f"{own_name(name)}: "
            print(f"{name}: {str(error).removeprefix(own)}", file=sys.stderr)
            failed = True
            continue
        if not arguments.json:
            # print divergent barriers first: they cause races, which are fixed at the barrier and not at the accesses
            for finding in sorted((*report.findings, *report.warnings), key=lambda one: one.kind != "divergence"):
                print(finding)
            compared = _what_was_compared(specs) if "order" in options.modes and not report.findings else ""
            text = f"{name}: {', '.join(options.modes)}: {summary(report)}{compared}"
            print(f"{text}{untried(specs, options.given)}", file=sys.stderr)
            if len(report.calls) > 1:
                print(f"  {calls_of(report)}", file=sys.stderr)
        total.findings += report.findings
        total.warnings += report.warnings
        total.launches += report.launches
        total.sources |= report.sources
        total.calls += report.calls
    if arguments.plot is not None:
        drawn = plot([*total.findings, *total.warnings], total.sources, arguments.plot)
        done = "written" if drawn else "not written, because there is nothing to draw"
        print(f"{arguments.plot}: {done}", file=sys.stderr)
    if arguments.json:
        lists = {"findings": total.findings, "warnings": total.warnings}
        found = {name: [one.as_json() for one in ones] for name, ones in lists.items()}
        print_json({**found, "launches": total.launches, "calls": total.calls})
    return 1 if total.findings or failed else 0


def _all_kernels(loader: Loader) -> list[str]:
    """Return all kernels that can be checked here, and print a notice, because checking all of them takes long."""
    names = [name for name in kernels() if _is_for_one_cpu(loader, name)]
    print(
        f"tkjit: checking all {len(names)} kernels; to check those of one file, run python -m tkjit check FILE.py",
        file=sys.stderr,
    )
    return names


def _is_for_one_cpu(loader: Loader, name: str) -> bool:
    try:
        kernel = find(name)
    except TkjitError:
        return True  # the error is reported when the kernel is checked
    if isinstance(kernel, HostKernel) or kernel.specs[0].is_parallel:
        return False
    return has_headers(loader, name, [loader.target("cpu")])


def _what_was_compared(specs: Sequence[Spec]) -> str:
    """Describe what the results of a kernel without findings were compared with."""
    from tkjit.check.results import compared_results

    if any(spec.is_random for spec in specs):
        return "; it draws random numbers, so its results were not compared with the reference: test their statistics"
    if any(spec.reference is None for spec in specs):
        return "; there is no reference to compare the results with: write it as the function's body"
    if not any(compared_results(spec) for spec in specs):
        return "; unchecked= leaves no result to compare with the reference"
    gradients = "; verify compares the gradients" if any(spec.backward for spec in specs) else ""
    return f"; the results match the reference{gradients}"


def untried(specs: Sequence[Spec], given: Mapping[str, Any]) -> str:
    """Name the integers for which only 1 was tried, because the spec does not say which values are right."""
    from tkjit.check.sizes import integers_always_1

    generated = [spec for spec in specs if spec.verification.prepare is None]  # prepare= may set other values
    names = ", ".join(
        dict.fromkeys(name for spec in generated for name in integers_always_1(spec) if name not in given)
    )
    advice = "list other calls in examples=, or give limits in constraints="
    return f"; only 1 was tried for {names}: {advice}" if names else ""


def calls_of(report: Any) -> str:
    """List the sizes of a report's calls, or the first of them if there are many."""
    shown, more = "; ".join(report.calls[:_MOST_CALLS]), len(report.calls) - _MOST_CALLS
    return f"calls: {shown}{f'; and {more} others' if more > 0 else ''}"


def summary(report: Any) -> str:
    """Format a report's summary, such as ``2 found, 1 warning in 6 launches``."""
    found = f"{len(report.findings)} found" if report.findings else "nothing found"
    count = len(report.warnings)
    warnings = f", {count} warning{'s' if count > 1 else ''} (--strict counts warnings as findings)" if count else ""
    return f"{found}{warnings} in {report.launches} launches"
