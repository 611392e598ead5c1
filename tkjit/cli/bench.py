"""``bench`` and ``tune``: measure kernels beside other implementations, and the configurations of a kernel."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit.cli.assignments import argument, assignment
from tkjit.cli.output import add_json, print_columns, print_json
from tkjit.errors import SpecError, TkjitError
from tkjit.kernel_objects import kernels_named

if TYPE_CHECKING:
    from tkjit.benchmark.measurement import Measurement
    from tkjit.loader.tuned import Choice


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    parser = commands.add_parser("bench", help="measure kernels beside other implementations, on a GPU")
    _add_calls(parser)
    parser.add_argument(
        "--inductor", action="store_true", help="also measure the reference compiled with torch.compile"
    )
    parser.add_argument("--rounds", type=int, default=15, help="times that each implementation is timed (default: 15)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the speeds and a roofline: FILE.svg, FILE.png")
    add_json(parser)
    parser.set_defaults(run=_bench)

    tuning = commands.add_parser("tune", help="choose the fastest configuration of kernels on this device")
    _add_calls(tuning)
    tuning.add_argument("--rounds", type=int, default=9, help="times that each configuration is timed (default: 9)")
    add_json(tuning)
    tuning.set_defaults(run=_tune)


def _add_calls(parser: argparse.ArgumentParser) -> None:
    """Add the options that select kernels and calls."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="kernels, packages or FILE.py to measure")
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="M,N=1024,4096",
        help="extents of one or more dims; all combinations are measured (default: the spec's sizes=)",
    )
    parser.add_argument("--leading", default="", metavar="16384", help="extents of the leading dims, for `... N`")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="causal=True", help="value of a number or of a variant"
    )
    parser.add_argument("--types", default="", metavar="bfloat16", help="measure only variants of these dtypes")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="where to measure (default: a GPU if there is one)")


def _bench(arguments: argparse.Namespace) -> int:
    from tkjit.benchmark.measure import measurements

    names = kernels_named(arguments.names)
    sizes = list(_sizes(arguments.dim, arguments.leading, dict(map(argument, arguments.arg))))
    types = [name for name in arguments.types.split(",") if name]
    if arguments.plot is not None:
        from tkjit.check.plot import check_can_plot

        check_can_plot(arguments.plot)
    found: list[Measurement] = []
    failed = False
    for name in names:
        try:
            options = {"inductor": arguments.inductor, "rounds": arguments.rounds}
            for one in measurements(name, sizes, types, arguments.device, **options):
                found.append(one)
                if not arguments.json:
                    print(f"{one}: {_time_text(one.seconds)}", file=sys.stderr, flush=True)
        except TkjitError as error:  # report it, and go on with the other kernels
            print(f"tkjit: {error}", file=sys.stderr)
            failed = True
    if arguments.json:
        print_json([one.as_json() for one in found])
    elif found:
        _print_table(found)
    if arguments.plot is not None and found:
        from tkjit.benchmark.plot import plot

        plot(found, arguments.plot)
    return 1 if failed else 0


def _tune(arguments: argparse.Namespace) -> int:
    from tkjit.benchmark.tuning import choices

    sizes = list(_sizes(arguments.dim, arguments.leading, dict(map(argument, arguments.arg))))
    types = [name for name in arguments.types.split(",") if name]
    found = []
    failed = False
    for name in kernels_named(arguments.names):
        try:
            for choice in choices(name, sizes, types, arguments.device, rounds=arguments.rounds):
                found.append(choice)
                if not arguments.json:
                    _print_choice(choice)
        except TkjitError as error:  # report it, and go on with the other kernels
            print(f"tkjit: {error}", file=sys.stderr)
            failed = True
    if arguments.json:
        print_json([choice.as_json() for choice in found])
    return 1 if failed else 0


def _print_choice(choice: Choice) -> None:
    print(choice, flush=True)
    fastest = min(choice.seconds.values())
    for configuration, seconds in sorted(choice.seconds.items(), key=lambda one: one[1]):
        print(f"  {configuration}: {_time_text(seconds)} ({seconds / fastest:.2f})")
    for configuration, reason in choice.failed.items():
        print(f"  {configuration}: {reason}")


def _sizes(dims: Sequence[str], leading: str, others: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the sizes of each call: all combinations of the extents that the command line gives."""
    choices: list[list[dict[str, Any]]] = [list(_extents(text)) for text in dims]
    if leading:
        choices.append([{"...": tuple(_extent("--leading", text) for text in leading.split(","))}])
    if not choices and not others:
        return
    names = [name for one in choices for name in one[0]]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError(f"--dim gives {', '.join(twice)} twice; to measure several extents, write N=1024,4096")
    for chosen in itertools.product(*choices):
        yield {**{name: value for one in chosen for name, value in one.items()}, **others}


def _extents(text: str) -> Iterator[dict[str, Any]]:
    names, equals, extents = text.partition("=")
    if not equals:
        raise SpecError(f"{text!r} is not an assignment; expected NAME=EXTENT, such as N=4096 or M,N=1024,4096")
    for extent in extents.split(","):
        yield {assignment(f"{name}={extent}")[0]: _extent(text, extent) for name in names.split(",")}


def _extent(where: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise SpecError(f"{where}: {text!r} is not an extent; expected an integer of at least 0")
    return int(text)


def _print_table(found: Sequence[Measurement]) -> None:
    peers = list(dict.fromkeys(peer for one in found for peer in one.peers))
    rows = [("call", "time", "spread", "speed", "of roofline", *(f"{peer} (ratio)" for peer in peers))]
    for one in found:
        share = "" if one.share_of_roofline is None else f"{one.share_of_roofline:.2f}"
        theirs = (
            f"{_time_text(one.peers[peer])} ({one.ratio(peer):.2f})" if peer in one.peers else "" for peer in peers
        )
        rows.append((str(one), _time_text(one.seconds), f"{one.spread:.1%}", one.speed, share, *theirs))
    print_columns(rows)
    for peer, reason in dict.fromkeys((peer, reason) for one in found for peer, reason in one.missing.items()):
        print(f"{peer} was not measured: {reason}", file=sys.stderr)
    if any(one.device == "cpu" for one in found):
        print("measured on the CPU: these times say nothing about a GPU", file=sys.stderr)


def _time_text(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
