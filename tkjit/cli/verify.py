"""``verify``: calls kernels, and compares the results with those of the kernels' references."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tkjit.cli.assignments import argument, assignment
from tkjit.cli.check import untried
from tkjit.cli.output import add_json, add_model_arch, print_columns, print_json
from tkjit.errors import TkjitError
from tkjit.kernel_objects import Kernel, find, kernels, kernels_named

if TYPE_CHECKING:
    from tkjit.verify import Outcome


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("verify", help="compare kernels with their references, in the simulator or on a GPU")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="kernels, packages or FILE.py to verify (default: all kernels)"
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="run in the simulator (cpu, the default) or on a GPU (cuda)",
    )
    parser.add_argument("--types", default="", metavar="bfloat16", help="verify only variants of these dtypes")
    parser.add_argument(
        "--dim", action="append", default=[], metavar="N=100", help="extent of a dim (default: several are tried)"
    )
    parser.add_argument(
        "--arg", action="append", default=[], metavar="alpha=2.0", help="value of a number or of a variant"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs (default: 0)")
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="S", help="time limit of each call in seconds (default: 600)"
    )
    add_json(parser)
    add_model_arch(parser)
    parser.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    from tkjit.verify import Options, verify

    names = kernels_named(arguments.names)  # an unknown name raises an error here, so it never becomes an outcome
    options = Options(
        device=arguments.device,
        types=[name for name in arguments.types.split(",") if name],
        given={**dict(map(assignment, arguments.dim)), **dict(map(argument, arguments.arg))},
        seed=arguments.seed,
        timeout_s=arguments.timeout,
    )
    outcomes = []
    for outcome in verify(names or _all_kernels(), options):
        outcomes.append(outcome)
        if outcome.problems or outcome.refused:  # the other outcomes are only in the table
            print(f"{outcome}: {outcome.verdict}", file=sys.stderr, flush=True)
    outcomes.sort(key=lambda outcome: outcome.kernel)
    if arguments.json:
        print_json([outcome.as_json() for outcome in outcomes])
    else:
        print_columns([("call", "result", "error", "allowed", "compilers", "call"), *map(_row, outcomes)])
    wrong, refused = sum(bool(one.problems) for one in outcomes), sum(bool(one.refused) for one in outcomes)
    called = len(outcomes) - refused
    print(f"{called - wrong} of {called} calls are right on {options.device}; {refused} not verified", file=sys.stderr)
    for name in names:
        with suppress(TkjitError):  # which an outcome reports
            kernel = find(name)
            if isinstance(kernel, Kernel) and (text := untried(kernel.specs, options.given)):
                print(f"{name}{text.replace(';', ':', 1)}", file=sys.stderr)
    return 1 if wrong or (refused and arguments.names) or not called else 0


def _all_kernels() -> list[str]:
    """Return every kernel except those with a deprecated name."""
    names = []
    for name in kernels():
        with suppress(TkjitError):  # the process that calls the kernel reports the error
            if find(name).specs[0].deprecated:
                continue
        names.append(name)
    return names


def _row(outcome: Outcome) -> tuple[str, ...]:
    if outcome.refused:
        return (str(outcome), "not verified", "", "", "", "")
    error = max(outcome.errors.values(), default=None)
    return (
        str(outcome),
        "right" if outcome.is_right else "WRONG" if outcome.is_compiled else "not compiled",
        "" if error is None else f"{error:.1e}",
        f"{outcome.tolerance:.1e}",
        f"{outcome.compile_cpu_s:.1f} s",
        f"{outcome.call_cpu_s:.2f} s",
    )
