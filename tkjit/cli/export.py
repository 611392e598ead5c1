"""``export``: writes libraries of kernels for programs without tkjit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tkjit.cli.output import size_text
from tkjit.cli.parallel_builds import add_limits, build_all, limits_of
from tkjit.config import Settings
from tkjit.errors import SpecError
from tkjit.exports.write import Builder, check_languages, check_target, check_torch_options, plan_export, write_export
from tkjit.loader import Loader, Plan, loader_for
from tkjit.render.torch_binding import BINDINGS


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("export", help="write a library for C, C++, Go and Rust, or a torch extension")
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels, packages or FILE.py to export")
    parser.add_argument(
        "--lang",
        action="append",
        default=[],
        metavar="c|cpp|go|rust|torch",
        help="language of the library (default: c); may be repeated",
    )
    parser.add_argument(
        "--binding", choices=BINDINGS, default="stable", help="binding of a torch extension (default: stable)"
    )
    parser.add_argument(
        "--name", default="", metavar="LIBRARY", help="name of the library (default: the name of the directory)"
    )
    parser.add_argument("--version", default="1.0", metavar="1.0", help="version of the library (default: 1.0)")
    parser.add_argument(
        "--package", default="", metavar="NAME", help="name of the Go package and the Rust crate (default: LIBRARY)"
    )
    parser.add_argument("--types", default="", metavar="bfloat16", help="export only variants of these dtypes")
    parser.add_argument(
        "--arch", default="cpu", metavar="cpu,90a,100a", help="targets to compile code for (default: cpu)"
    )
    add_limits(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="directory to write")
    parser.set_defaults(run=_export)


def _builder(arguments: argparse.Namespace) -> Builder:
    """Return a function that builds plans in parallel, prints a line for each, and then raises the first error."""

    def build(loader: Loader, plans: Sequence[Plan]) -> None:
        jobs, memory_bytes = limits_of(arguments)
        failed = [one for one in build_all(loader, plans, jobs, memory_bytes, has_kernels=False) if one.error]
        for outcome in failed[1:]:
            print(f"\n{outcome.what}: {outcome.error}", file=sys.stderr)
        for outcome in failed[:1]:
            assert outcome.error is not None
            raise outcome.error

    return build


def _export(arguments: argparse.Namespace) -> int:
    output: Path = arguments.output.absolute()
    if not arguments.names:
        raise SpecError("export: name at least one kernel")
    languages = check_languages(language for text in arguments.lang for language in text.split(",") if language)
    check_torch_options(languages, arguments.binding, arguments.package)
    name = arguments.name or output.name
    check_target(output)
    # compile even with TKJIT_JIT=0, which is meant for programs: here the user asked for a library
    loader = loader_for(replace(Settings.from_environment(), jit=True))
    archs = [arch for arch in arguments.arch.split(",") if arch]
    types = [dtype for dtype in arguments.types.split(",") if dtype]
    if languages == ("torch",):
        from tkjit.exports.torch_package import with_backwards, write_torch_package  # imports torch

        planned = plan_export(loader, with_backwards(arguments.names), name, archs, types, arguments.version)
        write_torch_package(loader, planned, output, arguments.binding)
        print(f"{output}: a torch extension; build it with pip install --no-build-isolation {output}")
        return 0
    planned = plan_export(loader, arguments.names, name, archs, types, arguments.version, arguments.package)
    write_export(loader, planned, output, languages, _builder(arguments))
    size = (output / "lib" / planned.soname).stat().st_size
    print(f"{output}: {len(planned.signatures)} functions for {', '.join(languages)}; the library is {size_text(size)}")
    return 0
