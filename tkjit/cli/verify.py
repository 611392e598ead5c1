"""``verify``: calls kernels, and compares what they write with their references."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from tkjit.cli.assignments import assignment
from tkjit.cli.output import add_json, add_model_arch, print_columns, print_json
from tkjit.kernel import find, kernels

if TYPE_CHECKING:
    from tkjit.verify import Outcome


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("verify", help="compare kernels with their references, in the simulator or on a GPU")
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels; all if none is named")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cpu (the default): in the simulator")
    parser.add_argument("--types", default="", metavar="bfloat16", help="only variants of these dtypes")
    parser.add_argument("--dim", action="append", default=[], metavar="N=100", help="an extent, instead of several")
    parser.add_argument("--arg", action="append", default=[], metavar="alpha=2.0", help="a number, or a variant")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="S", help="for each call, in seconds")
    add_json(parser)
    add_model_arch(parser)
    parser.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    from tkjit.verify import Options, verify

    options = Options(
        device=arguments.device,
        types=[name for name in arguments.types.split(",") if name],
        given=dict(map(assignment, [*arguments.dim, *arguments.arg])),
        seed=arguments.seed,
        timeout_s=arguments.timeout,
    )
    names = arguments.names or [name for name in kernels() if not find(name).specs[0].deprecated]
    for name in names:
        find(name)  # an unknown name is no outcome
    outcomes = []
    for outcome in verify(names, options):
        outcomes.append(outcome)
        print(f"{outcome}: {'; '.join(outcome.problems) or 'right'}", file=sys.stderr, flush=True)
    outcomes.sort(key=lambda outcome: list(names).index(outcome.kernel))
    if arguments.json:
        print_json([outcome.as_json() for outcome in outcomes])
    else:
        print_columns([("call", "result", "error", "allowed", "compilers", "call"), *map(_row, outcomes)])
    wrong = sum(not outcome.is_right for outcome in outcomes)
    print(f"{len(outcomes) - wrong} of {len(outcomes)} calls are right on {options.device}", file=sys.stderr)
    return 1 if wrong else 0


def _row(outcome: Outcome) -> tuple[str, ...]:
    error = max(outcome.errors.values(), default=None)
    return (
        str(outcome),
        "right" if outcome.is_right else "WRONG",
        "" if error is None else f"{error:.1e}",
        f"{outcome.tolerance:.1e}",
        f"{outcome.compile_cpu_s:.1f} s",
        f"{outcome.call_cpu_s:.2f} s",
    )
