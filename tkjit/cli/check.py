"""``check``: runs kernels in the simulator, and reports errors that their results may not show."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from tkjit.cli.assignments import assignment
from tkjit.cli.output import add_json, add_model_arch, print_json
from tkjit.cli.selection import has_headers
from tkjit.config import Settings
from tkjit.errors import TkjitError
from tkjit.kernel import find, kernels, kernels_named
from tkjit.kernel.host import HostKernel
from tkjit.loader import Loader, loader_for
from tkjit.registry import own_name
from tkjit.spec import Spec

_HELP = {
    "memory": "accesses outside of tensors, shared memory and local arrays (AddressSanitizer)",
    "race": "accesses of two threads that nothing orders",
    "init": "shared memory and outputs that are read before they are written, or never written",
    "order": "results that depend on the order in which threads run, or differ from the reference",
}


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("check", help="find races, accesses out of bounds and the like, without a GPU")
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels; all if none is named")
    for mode, text in _HELP.items():
        parser.add_argument(f"--{mode}", action="append_const", dest="modes", const=mode, help=text)
    parser.add_argument("--all", action="store_true", help="all of these, which is also what no option means")
    parser.add_argument("--types", default="", metavar="bfloat16", help="only variants of these dtypes")
    parser.add_argument("--dim", action="append", default=[], metavar="N=100", help="an extent, instead of several")
    parser.add_argument("--arg", action="append", default=[], metavar="alpha=2.0", help="a number's value")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs and the random orders")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="for each launch, in seconds (60)")
    parser.add_argument("--strict", action="store_true", help="warnings are findings")
    parser.add_argument(
        "--volatile",
        choices=("race", "atomic"),
        default="race",
        help="race (the default): volatile orders nothing; atomic: a volatile access counts as a relaxed atomic",
    )
    parser.add_argument("--trace", action="store_true", help="write barriers and copies to standard error")
    add_json(parser)
    add_model_arch(parser)
    parser.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    from tkjit.check import MODES, Options, Report, check

    options = Options(
        modes=MODES if arguments.all or not arguments.modes else tuple(dict.fromkeys(arguments.modes)),
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
        except TkjitError as error:  # another kernel's
            own = f"{own_name(name)}: "
            print(f"{name}: {str(error).removeprefix(own)}", file=sys.stderr)
            failed = True
            continue
        if not arguments.json:
            # a barrier in a branch first: the races that it makes have other remedies
            for finding in sorted((*report.findings, *report.warnings), key=lambda one: one.kind != "divergence"):
                print(finding)
            compared = _what_was_compared(specs) if "order" in options.modes and not report.findings else ""
            print(f"{name}: {', '.join(options.modes)}: {_summary(report)}{compared}", file=sys.stderr)
        total.findings += report.findings
        total.warnings += report.warnings
        total.launches += report.launches
    if arguments.json:
        lists = {"findings": total.findings, "warnings": total.warnings}
        told = {name: [one.as_json() for one in ones] for name, ones in lists.items()}
        print_json({**told, "launches": total.launches})
    return 1 if total.findings or failed else 0


def _all_kernels(loader: Loader) -> list[str]:
    """All that can be checked here; it takes long, and who gave no name may have forgotten it."""
    names = [name for name in kernels() if _is_for_one_cpu(loader, name)]
    print(f"tkjit: checks all {len(names)} kernels; python -m tkjit check FILE.py checks a file's", file=sys.stderr)
    return names


def _is_for_one_cpu(loader: Loader, name: str) -> bool:
    try:
        kernel = find(name)
    except TkjitError:
        return True  # which its check says
    if isinstance(kernel, HostKernel) or kernel.specs[0].is_parallel:
        return False
    return has_headers(loader, name, [loader.target("cpu")])


def _what_was_compared(specs: Sequence[Spec]) -> str:
    """What the results of a kernel in which nothing was found were compared with."""
    from tkjit.check.results import compared_results

    if any(spec.is_random for spec in specs):
        return "; it draws random numbers, so no reference was compared: test what its results are like"
    if any(spec.reference is None for spec in specs):
        return "; there is no reference to compare the results with: write it as the function's body"
    if not any(compared_results(spec) for spec in specs):
        return "; unchecked= leaves no result to compare with the reference"
    gradients = "; verify compares the gradients" if any(spec.backward for spec in specs) else ""
    return f"; the results are the reference's{gradients}"


def _summary(report: Any) -> str:
    """``2 found, 1 warning in 6 launches``."""
    found = f"{len(report.findings)} found" if report.findings else "nothing found"
    count = len(report.warnings)
    warnings = f", {count} warning{'s' if count > 1 else ''} (--strict: findings)" if count else ""
    return f"{found}{warnings} in {report.launches} launches"
